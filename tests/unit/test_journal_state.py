"""Retention never deletes the newest rows of a table, cluster and source, unless they are a log or the source is retired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lagwatch.batch import Batch, Column, make_batch
from lagwatch.catalogue import SOURCE, TOPIC, TOPIC_PARTITION
from lagwatch.clock import SettableClock
from lagwatch.journal import Cursor, Journal, JournalReader
from lagwatch.journal.retention import delete_aged
from lagwatch.snapshot.from_journal import clusters_in
from lagwatch.snapshot.snapshot import Snapshot
from lagwatch.source_names import CONFIGS, KAFKA
from tests.harness.journal_batches import START_MS, event_batch, lag_batch

MINUTE_MS = 60_000
HISTORY_MS = 10 * MINUTE_MS
NO_TOPICS: Mapping[str, Column] = {"topic": []}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "j.db", history_seconds=HISTORY_MS / 1000, clock=SettableClock(START_MS)) as journal:
        yield journal


def configs(at_ms: int, cluster: str = "east", columns: Mapping[str, Column] | None = None) -> Batch:
    return make_batch(TOPIC, cluster, at_ms, columns or {"topic": ["orders"], "min_isr": [2]}, source=CONFIGS)


def source(name: str, at_ms: int, cluster: str = "east", *, retired: bool | None = None) -> Batch:
    columns: dict[str, Column] = {"source": [name], "target": [""], "up": [True], "retired": [retired]}
    return make_batch(SOURCE, cluster, at_ms, columns, source=name)


def poll(journal: Journal, minutes: range) -> None:
    """A poll of the Kafka job each minute."""
    for minute in minutes:
        at_ms = START_MS + minute * MINUTE_MS
        journal.append([lag_batch(minute, at_ms=at_ms), event_batch(minute, at_ms=at_ms), source(KAFKA, at_ms)])


def trim(journal: Journal, at_ms: int) -> int:
    """Trim with everything covered by both checkpoints."""
    for _ in range(2):
        journal.save_checkpoint({}, at_ms)
    return journal.trim(at_ms)


def kept(journal: Journal) -> list[tuple[int, str, str]]:
    """Poll, table and source of each batch that is not of the Kafka job."""
    found = sorted((each.poll, batch.table, batch.source) for each in journal.tail() for batch in each.batches)
    return [key for key in found if key[2] == CONFIGS]


def test_the_newest_rows_of_a_slow_job_and_of_a_silent_cluster_outlive_the_history(journal: Journal) -> None:
    journal.append([configs(START_MS - MINUTE_MS), source(CONFIGS, START_MS - MINUTE_MS)])
    journal.append([configs(START_MS), source(CONFIGS, START_MS)])
    journal.append([configs(START_MS, "west")])
    poll(journal, range(1, 100))
    trim(journal, START_MS + 100 * MINUTE_MS)
    assert kept(journal) == [(2, "source", CONFIGS), (2, "topic", CONFIGS), (3, "topic", CONFIGS)]
    assert [batch.cluster for batch in journal.newest(tables=["topic"])] == ["east", "west"]
    assert journal.read(3)[0].poll == 93, "all else is deleted"
    assert trim(journal, START_MS + 100 * MINUTE_MS) == 0


def test_logs_are_no_state(journal: Journal) -> None:
    journal.append([event_batch(1, at_ms=START_MS)])
    journal.append([configs(START_MS)])
    trim(journal, START_MS + 100 * MINUTE_MS)
    assert [batch.table for each in journal.tail() for batch in each.batches] == ["topic"]


def test_a_retired_source_is_deleted_with_the_history(journal: Journal) -> None:
    journal.append([configs(START_MS), source(CONFIGS, START_MS)])
    retired_ms = START_MS + 50 * MINUTE_MS
    journal.append([configs(retired_ms, columns=NO_TOPICS), source(CONFIGS, retired_ms, retired=True)])
    poll(journal, range(51, 100))
    trim(journal, retired_ms + HISTORY_MS - 1)
    assert kept(journal) == [(2, "source", CONFIGS), (2, "topic", CONFIGS)]
    trim(journal, retired_ms + HISTORY_MS + 1)
    assert kept(journal) == []


def test_a_retired_cluster_does_not_return_while_older_rows_with_later_times_are_kept(journal: Journal) -> None:
    """They are from before the wall clock was set back."""
    wrong_ms = START_MS + 60 * MINUTE_MS
    journal.append([configs(wrong_ms, "west"), source(CONFIGS, wrong_ms, "west")])
    journal.append([configs(START_MS, "west", NO_TOPICS), source(CONFIGS, START_MS, "west", retired=True)])
    poll(journal, range(1, 100))
    trim(journal, wrong_ms)
    assert clusters_in(JournalReader(journal.path)) == ["east"]
    assert Snapshot.of("west", journal.newest("west")).batches == {}
    trim(journal, wrong_ms + HISTORY_MS + 1)
    assert kept(journal) == []


def test_the_oldest_time_in_the_statistics_is_that_of_the_history(journal: Journal) -> None:
    """`lagwatch ship` takes from the archive what is before it."""
    journal.append([configs(START_MS)])
    assert journal.stats().oldest_ms == START_MS
    poll(journal, range(1, 100))
    trim(journal, START_MS + 100 * MINUTE_MS)
    stats = journal.stats()
    assert stats.oldest_ms == START_MS + 90 * MINUTE_MS
    assert (stats.tables["topic"].rows, stats.polls, stats.dropped) == (1, 11, {})


def test_the_cap_drops_all_but_the_newest_rows_of_each_source(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", cap_bytes=2**20, partition_rows_every_seconds=0) as journal:
        journal.append([configs(START_MS - 1), event_batch(1)])
        journal.append([configs(START_MS), event_batch(2)])
        written = 4
        while journal.stats().dropped.get("dropped", 0) < 300_000:
            journal.append([lag_batch(journal.newest_poll, rows=10_000)])
            written += 10_000
        assert kept(journal) == [(2, "topic", CONFIGS)]
        assert journal.fault is None
        stats = journal.stats()
        assert stats.rows + stats.dropped_rows == written, "every row is there or counted"


def test_a_sink_still_gets_the_rows_that_the_cap_keeps(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", cap_bytes=2**20, partition_rows_every_seconds=0) as journal:
        journal.register_sink("influx", start="oldest")
        journal.append([event_batch(1)])
        journal.append([configs(START_MS), event_batch(2)])
        journal.jump_live("influx", 2)
        while not journal.stats().dropped.get("dropped"):
            journal.append([lag_batch(journal.newest_poll, rows=10_000)])
        assert journal.cursor("influx") == Cursor(2, ((2, 2),)), (
            "the first poll was deleted, of the second some is left"
        )
        assert [batch.table for batch in journal.read(1, through_poll=2)[0].batches] == ["topic"]
        assert journal.stats().cursors["influx"].lag_polls == journal.stats().polls
        journal.append([configs(START_MS + 1)])
        for _ in range(30):
            journal.append([lag_batch(journal.newest_poll, rows=10_000)])
        oldest = journal.read(0)[0].poll
        assert oldest > 2
        assert journal.cursor("influx") == Cursor(oldest - 1), "nothing is left of the second either"


def test_where_the_newest_rows_alone_exceed_the_cap_the_oldest_of_them_are_dropped(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", cap_bytes=2**20) as journal:
        for number in range(60):
            journal.append([lag_batch(number, rows=8000, cluster=f"cluster-{number}")])
            assert journal.fault is None
            assert journal.stats().bytes <= 2**20
        stats = journal.stats()
        assert stats.rows + stats.dropped_rows == 60 * 8000
        assert [batch.cluster for batch in journal.newest()][-3:] == ["cluster-57", "cluster-58", "cluster-59"]


@pytest.mark.parametrize("polls", [400, 1600])
def test_looking_for_them_costs_by_the_number_of_sources_not_of_polls(polls: int, tmp_path: Path) -> None:
    def sizes(at_ms: int, cluster: str) -> Batch:
        columns: dict[str, Column] = {"topic": ["t"], "partition": [0], "size_bytes": [1]}
        return make_batch(TOPIC_PARTITION, cluster, at_ms, columns, source=KAFKA)

    steps = [0]

    def count() -> int:
        steps[0] += 10
        return 0

    with Journal(tmp_path / "j.db", partition_rows_every_seconds=0) as journal:
        for number in range(polls):
            cluster = f"cluster-{number % 4}"
            journal.append([sizes(START_MS + number, cluster), source(KAFKA, START_MS + number, cluster)])
    with JournalReader(tmp_path / "j.db").connection() as connection:
        connection.set_progress_handler(count, 10)
        assert delete_aged(connection, 10**9, START_MS) == 0
    assert 0 < steps[0] < 1000
