"""The read model: snapshots are frozen and replaced whole, and reading one costs the same in a journal of any length."""

from __future__ import annotations

import ast
import sqlite3
import sys
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import lagwatch
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BUILT_IN
from lagwatch.clock import SettableClock
from lagwatch.errors import LagwatchError
from lagwatch.journal import Journal, JournalReader
from lagwatch.journal.queries import newest_polls
from lagwatch.snapshot import ClusterView, Snapshot
from lagwatch.snapshot.from_journal import clusters_in, view_journal
from lagwatch.snapshot.names import pick_cluster
from lagwatch.source_names import CONFIGS, JMX, KAFKA, LOGDIRS
from tests.harness.cli import lagwatch as run_lagwatch

START_MS = 1_700_000_000_000
CLUSTERS = [f"cluster-{number:02}" for number in range(40)]
FEW_POLLS, MANY_POLLS = 1000, 6200
CLUSTER_TABLES = {"broker", "cluster", "topic", "topic_partition"}


def batch(table: str, source: str, at_ms: int = START_MS, cluster: str = "east", /, **columns: list[Any]) -> Batch:
    """A batch of one source."""
    return make_batch(BUILT_IN[table], cluster, at_ms, columns, source=source)


def brokers(source: str, at_ms: int = START_MS, **columns: list[Any]) -> Batch:
    """A row for each of two brokers."""
    return batch("broker", source, at_ms, broker=[1, 2], **columns)


class TestRuns:
    """How runs of sources change a snapshot."""

    def test_a_run_replaces_the_batch_of_its_table_and_source_alone(self) -> None:
        offsets, sizes = brokers(KAFKA, leaders=[1, 1]), brokers(LOGDIRS, size_bytes=[7, 8])
        before = Snapshot.of("east", [offsets, sizes, batch("cluster", KAFKA, brokers=[2])])
        newer = brokers(KAFKA, START_MS + 10, leaders=[2, 0])
        after = before.with_run([newer])
        assert after.batches.keys() == before.batches.keys()
        assert after.newest("broker", KAFKA) is newer
        assert after.newest("broker", LOGDIRS) is sizes
        assert after.newest("cluster") is before.newest("cluster")

    def test_batches_stay_in_the_order_they_were_written(self) -> None:
        first = Snapshot.of("east", [brokers(KAFKA), brokers(LOGDIRS, START_MS + 1)])
        assert [one.source for one in first.all_of("broker")] == [KAFKA, LOGDIRS]
        second = first.with_run([brokers(KAFKA, START_MS + 2)])
        assert [one.source for one in second.all_of("broker")] == [LOGDIRS, KAFKA]
        newest = second.newest("broker")
        assert newest is not None
        assert (newest.source, newest.at_ms) == (KAFKA, START_MS + 2)

    def test_a_snapshot_taken_before_a_run_does_not_change(self) -> None:
        taken = Snapshot.of("east", [brokers(KAFKA, leaders=[1, 1])])
        kept, rows = dict(taken.batches), taken.merged("broker")
        taken.with_run([brokers(KAFKA, START_MS + 10, leaders=[2, 0]), brokers(LOGDIRS, START_MS + 10)])
        taken.without({KAFKA})
        assert (dict(taken.batches), taken.merged("broker")) == (kept, rows)
        with pytest.raises(FrozenInstanceError):
            taken.cluster = "west"  # type: ignore[misc]

    def test_sources_that_are_no_longer_polled_are_dropped(self) -> None:
        both = Snapshot.of("east", [brokers(KAFKA), brokers(JMX), batch("cluster", JMX, brokers=[2])])
        left = both.without({JMX})
        assert (left.sources, set(left.batches)) == ({KAFKA}, {("broker", KAFKA)})
        assert both.without(set()).batches == both.batches

    def test_the_last_row_of_a_retired_source_drops_all_its_tables_until_it_is_polled_again(self) -> None:
        last = batch("source", JMX, START_MS + 1, source=[JMX], target=[""], up=[True], retired=[True])
        before = Snapshot.of("east", [brokers(KAFKA), brokers(JMX), batch("cluster", JMX, brokers=[2])])
        retired = before.with_run([last])
        assert set(retired.batches) == {("broker", KAFKA)}
        assert set(Snapshot.of("east", [*before.batches.values(), last]).batches) == {("broker", KAFKA)}
        again = [brokers(JMX, START_MS + 2), batch("source", JMX, START_MS + 2, source=[JMX], target=[""], up=[True])]
        assert set(retired.with_run(again).run(JMX)) == {"broker", "source"}

    def test_a_source_of_an_older_version_is_not_retired(self) -> None:
        row = batch("source", JMX, source=[JMX], target=[""], up=[True])
        old = replace(row, rows=row.rows.select(["source", "target", "up"]))
        assert set(Snapshot.of("east", [old]).batches) == {("source", JMX)}

    @pytest.mark.parametrize("table", ["event", "commit", "rejected"])
    def test_logs_are_not_part_of_a_snapshot(self, table: str) -> None:
        row = make_batch(BUILT_IN[table], "east", START_MS, {}, source=KAFKA)
        assert list(Snapshot.of("east", [row, brokers(KAFKA)]).batches) == [("broker", KAFKA)]

    def test_a_reader_without_a_lock_gets_whole_runs_only(self) -> None:
        published = [run_of(Snapshot("east"), 0)]
        torn: list[list[int]] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                snapshot = published[0]
                times = [one.at_ms for one in snapshot.batches.values()]
                times += [one.at_ms for table in ("broker", "cluster", "topic") for one in snapshot.all_of(table)]
                if len(times) != 6 or len(set(times)) != 1:
                    torn.append(times)

        readers = [threading.Thread(target=read) for _ in range(2)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for reader in readers:
                reader.start()
            for number in range(1, 2000):
                published[0] = run_of(published[0], number)
        finally:
            sys.setswitchinterval(interval)
            done.set()
            for reader in readers:
                reader.join()
        assert torn == []


def run_of(snapshot: Snapshot, number: int) -> Snapshot:
    """The snapshot after a run of three tables, which all have the number as time."""
    return snapshot.with_run([replace(one, at_ms=number) for one in THREE_TABLES])


THREE_TABLES = [brokers(KAFKA), batch("cluster", KAFKA, brokers=[2]), batch("topic", KAFKA, topic=["orders"])]


class TestReading:
    """What readers get from a snapshot."""

    def test_merged_rows_have_the_newest_known_value_of_each_field(self) -> None:
        snapshot = Snapshot.of(
            "east",
            [
                brokers(KAFKA, START_MS, leaders=[3, 4], rack=["a", None]),
                brokers(LOGDIRS, START_MS + 1, size_bytes=[70, None], rack=["b", None]),
                brokers(JMX, START_MS + 2, leaders=[None, 5]),
            ],
        )
        found = [(row["broker"], row["leaders"], row["rack"], row["size_bytes"]) for row in snapshot.merged("broker")]
        assert found == [(1, 3, "b", 70), (2, 5, None, None)]

    def test_columns_come_from_one_source_or_from_all(self) -> None:
        snapshot = Snapshot.of("east", [brokers(KAFKA, leaders=[3, 4]), brokers(JMX, leaders=[5, 6])])
        assert list(snapshot.columns("broker", "broker", "leaders", source=JMX)) == [(1, 5), (2, 6)]
        assert [leaders for (leaders,) in snapshot.columns("broker", "leaders")] == [3, 4, 5, 6]
        assert list(snapshot.columns("topic", "topic")) == []
        assert set(snapshot.run(KAFKA)) == {"broker"}

    def test_ages_are_those_of_each_table_and_source(self) -> None:
        snapshot = Snapshot.of("east", [brokers(KAFKA), batch("topic", CONFIGS, START_MS + 4000, topic=["orders"])])
        view = ClusterView(snapshot, START_MS + 10_000)
        assert (view.at_ms, snapshot.at_ms) == (START_MS + 4000, START_MS + 4000)
        assert (view.age_seconds("broker", KAFKA), view.age_seconds("topic", CONFIGS)) == (10.0, 6.0)
        later = ClusterView(snapshot.with_run([brokers(JMX, START_MS + 9000)]), START_MS + 10_000)
        assert (later.age_seconds("broker", JMX), later.age_seconds("broker", KAFKA)) == (1.0, 10.0)
        assert ClusterView(snapshot, START_MS - 5000).age_seconds("broker", KAFKA) == 0.0, "a clock that went back"
        assert (Snapshot("east").at_ms, ClusterView(Snapshot("east"), START_MS).at_ms) == (None, START_MS)


class ReadCost(NamedTuple):
    """What reading the newest batches costs."""

    virtual_machine_steps: int
    batches: int


class LongJournal(NamedTuple):
    """A journal of 40 clusters, and what reading one of them cost with few and with many polls."""

    path: Path
    clock: SettableClock
    few: ReadCost
    many: ReadCost


def cost_of_reading(path: Path, cluster: str | None) -> ReadCost:
    """Count steps of SQLite's virtual machine, by tens."""
    steps = [0]

    def count() -> int:
        steps[0] += 10
        return 0

    with JournalReader(path).connection() as connection:
        connection.set_progress_handler(count, 10)
        found = newest_polls(connection, cluster, {*CLUSTER_TABLES, "source"})
    return ReadCost(steps[0], sum(len(poll.batches) for poll in found))


@pytest.fixture(scope="module")
def long_journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongJournal]:
    """The configs job of each cluster runs once, at the beginning; then the Kafka job alone, 6,200 polls."""
    path = tmp_path_factory.mktemp("long") / "journal.db"
    clock = SettableClock(START_MS)
    with Journal(path, clock=clock, partition_rows_every_seconds=0) as journal:
        for cluster in CLUSTERS:
            journal.append([batch("topic", CONFIGS, START_MS, cluster, topic=["orders"], min_isr=[2])])
        few = None
        for number in range(MANY_POLLS):
            if number == FEW_POLLS:
                few = cost_of_reading(path, CLUSTERS[7])
            clock.advance(0.25)
            journal.append(_poll(CLUSTERS[number % len(CLUSTERS)], clock.wall_ms()))
        assert few is not None
        yield LongJournal(path, clock, few, cost_of_reading(path, CLUSTERS[7]))


def _poll(cluster: str, at_ms: int) -> list[Batch]:
    bad: dict[str, list[Any]] = {
        "leader": [1],
        "replicas": [3],
        "in_sync_replicas": [1],
        "under_replicated": [True],
        "under_min_isr": [True],
    }
    return [
        batch("topic_partition", KAFKA, at_ms, cluster, topic=["orders"], partition=[0], offline=[False], **bad),
        batch("cluster", KAFKA, at_ms, cluster, brokers=[3], under_min_isr_partitions=[1]),
        batch("source", KAFKA, at_ms, cluster, source=[KAFKA], target=[""], up=[True], since_ms=[START_MS]),
    ]


class TestJournal:
    """The snapshot read from a long journal of many clusters."""

    def test_a_job_that_ran_once_6000_polls_ago_is_still_in_the_view(self, long_journal: LongJournal) -> None:
        assert JournalReader(long_journal.path).stats().polls > 6000
        for cluster in (CLUSTERS[0], CLUSTERS[-1]):
            view = view_journal(long_journal.path, cluster, CLUSTER_TABLES, long_journal.clock)
            assert [row["min_isr"] for row in view.merged("topic")] == [2]
            assert view.overdue is None
            assert view.age_seconds("topic", CONFIGS) == MANY_POLLS / 4
        assert clusters_in(JournalReader(long_journal.path)) == CLUSTERS

    @pytest.mark.parametrize(
        ("up", "listed_all", "complete"),
        [(True, True, True), (True, False, False), (False, False, True), (True, None, True)],
    )
    def test_groups_may_be_missing_where_the_last_poll_did_not_list_all(
        self, up: bool, listed_all: bool | None, complete: bool, tmp_path: Path
    ) -> None:
        rows = batch("source", KAFKA, source=[KAFKA], target=[""], up=[up], complete=[listed_all])
        other = batch("source", LOGDIRS, source=[LOGDIRS], target=[""], up=[True], complete=[False])
        with Journal(tmp_path / "j.db") as journal:
            journal.append([rows])
            journal.append([other])
        assert view_journal(tmp_path / "j.db", "east", (), SettableClock(START_MS)).complete == complete

    def test_the_cluster_command_shows_its_min_insync_replicas(self, long_journal: LongJournal) -> None:
        options = ("cluster", "--journal", long_journal.path, "--cluster", CLUSTERS[7])
        [bad] = run_lagwatch(*options, "--json").json["bad_partitions"]
        assert (bad["topic"], bad["in_sync_replicas"], bad["min_isr"]) == ("orders", 1, 2)
        lines = run_lagwatch(*options).lines
        head = next(number for number, line in enumerate(lines) if "MIN-ISR" in line)
        assert lines[head + 1].split()[:6] == ["orders", "0", "1", "3", "1", "2"]

    def test_reading_costs_no_more_after_six_times_the_polls(self, long_journal: LongJournal) -> None:
        assert long_journal.few.batches == long_journal.many.batches == 4
        assert long_journal.few.virtual_machine_steps > 0
        assert long_journal.many.virtual_machine_steps <= long_journal.few.virtual_machine_steps * 1.1

    def test_every_read_goes_over_the_index_by_source(self, long_journal: LongJournal) -> None:
        statements: list[str] = []
        with JournalReader(long_journal.path).connection() as connection:
            connection.set_trace_callback(statements.append)
            newest_polls(connection, CLUSTERS[7], CLUSTER_TABLES)
            connection.set_trace_callback(None)
            [query] = [statement for statement in statements if "batch" in statement]
            plan = query_plan(connection, query)
        reads = [step for step in plan if "batch" in step or "next" in step]
        assert any("batch_by_source (cluster=? AND table_name=? AND source>?)" in step for step in reads), plan
        assert any("batch_by_source (cluster=? AND table_name=? AND source=?)" in step for step in reads), plan
        assert not [step for step in reads if step.startswith("SCAN batch")], plan


def query_plan(connection: sqlite3.Connection, query: str) -> list[str]:
    """The steps of SQLite's plan for a query."""
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]


def test_documents_of_commands_are_built_in_one_module() -> None:
    """Reports of commands over the read model call `snapshot/documents.py`; they build no JSON themselves."""
    root = Path(lagwatch.__file__).parent
    files = [
        *(file for file in root.glob("snapshot/*.py") if file.name != "documents.py"),
        *(file for name in ("lag", "status", "explain", "cluster") for file in root.glob(f"cli/{name}_*.py")),
    ]
    assert len(files) > 15
    built = [f"{file.name}:{line}" for file in files for line in dict_lines_in_documents(ast.parse(file.read_text()))]
    assert built == []


def dict_lines_in_documents(tree: ast.Module) -> list[int]:
    """Lines of dicts that a function named `*document*` returns, or that are printed as JSON."""
    returned = [
        node.value
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and "document" in function.name
        for node in ast.walk(function)
        if isinstance(node, ast.Return)
    ]
    printed = [
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and "json" in node.func.attr
        for argument in node.args
    ]
    return [value.lineno for value in (*returned, *printed) if isinstance(value, (ast.Dict, ast.DictComp, ast.BinOp))]


@pytest.mark.parametrize(("names", "name", "picked"), [(["east"], None, "east"), (["east", "west"], "west", "west")])
def test_a_cluster_is_picked_by_name_or_as_the_only_one(names: list[str], name: str | None, picked: str) -> None:
    assert pick_cluster(names, name, "j.db") == picked


@pytest.mark.parametrize(
    ("names", "name", "reason"),
    [
        ([], None, "j.db: name a cluster with --cluster (there are none yet)"),
        (["east", "west"], None, "j.db: name a cluster with --cluster (there are: east, west)"),
        (["east"], "north", 'j.db: no cluster "north" (there are: east)'),
    ],
)
def test_a_cluster_that_cannot_be_picked_is_an_error_with_the_names_there_are(
    names: list[str], name: str | None, reason: str
) -> None:
    with pytest.raises(LagwatchError) as raised:
        pick_cluster(names, name, "j.db")
    assert str(raised.value) == reason


def test_a_cluster_that_a_journal_does_not_have_is_an_error(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        journal.append([batch("source", KAFKA, source=["kafka"], target=[""], up=[True], since_ms=[0])])
    with pytest.raises(LagwatchError, match=r'no cluster "north" \(there are: east\)'):
        view_journal(tmp_path / "journal.db", "north", ["cluster"])
