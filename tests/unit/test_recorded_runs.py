"""Fields added by a collector reach the journal, and a restart relies on recorded data, never on verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from lagwatch.batch import Batch, make_batch, replace_columns
from lagwatch.catalogue import BROKER, EVENT
from lagwatch.clock import Moment, SettableClock
from lagwatch.journal import Journal
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected
from lagwatch.source_names import COMMITS, JMX, KAFKA
from tests.harness.polls import lag_by_key, poll, rows_of, unreachable
from tests.harness.simulated_consumers import (
    Simulation,
    from_both,
    gone,
    keeping_up,
    reading,
    simulate,
    standing_still,
    then,
)

VERDICT_COLUMNS = {
    "consumer_lag": ("status", "rule", "complete", "abandoned"),
    "consumer_group": ("status", "status_text", "why", "complete", "not_ok_partitions", "abandoned_partitions"),
}


def with_field(collected: Collected, table: str, name: str, values: Sequence[object]) -> Collected:
    """A collector that writes one more field into a table than the catalogue of today has."""

    def widened(batch: Batch) -> Batch:
        if batch.table != table:
            return batch
        rows = batch.rows.append_column(name, pa.array(values, pa.int64()))
        return replace(batch, rows=rows)

    return replace(collected, batches=[widened(batch) for batch in collected.batches])


def observe(pipeline: Pipeline, clock: SettableClock, collected: Collected) -> list[Batch]:
    clock.advance(10)
    return pipeline.observe(KAFKA, collected, 0.1, Moment.now(clock))


def test_a_field_a_collector_adds_to_consumer_lag_reaches_the_journal(tmp_path: pytest.TempPathFactory) -> None:
    pipeline, clock = Pipeline("east"), SettableClock()
    commits = {("g", "t", 1): 5, ("g", "t", 0): 4, ("h", "t", 0): 3}
    ends = {("t", 0): 10, ("t", 1): 10}
    batches = observe(pipeline, clock, with_field(poll(ends, commits), "consumer_lag", "epoch", [51, 50, 70]))
    assert {key: row["epoch"] for key, row in lag_by_key(batches).items()} == {
        ("g", "t", 0): 50, ("g", "t", 1): 51, ("h", "t", 0): 70,
    }  # fmt: skip
    with Journal(f"{tmp_path}/j.db") as journal:
        journal.append(batches)
        [written] = journal.newest("east", ["consumer_lag"])
    assert sorted(written.rows["epoch"].to_pylist()) == [50, 51, 70]

    fewer = poll(ends, {("g", "t", 0): 4, ("g", "t", 1): 6}, not_asked=["h"])
    rows = lag_by_key(observe(pipeline, clock, with_field(fewer, "consumer_lag", "epoch", [52, 53])))
    assert rows["h", "t", 0]["epoch"] == 70, "a group that could not be queried keeps it, with the rest of its row"
    assert rows["g", "t", 1]["epoch"] == 53
    assert lag_by_key(observe(pipeline, clock, unreachable()))["g", "t", 0]["epoch"] == 52


def test_a_field_a_collector_adds_to_consumer_group_reaches_the_journal() -> None:
    pipeline, clock = Pipeline("east"), SettableClock()
    collected = poll({("t", 0): 10}, {("g", "t", 0): 4}, groups=["g", "idle"])
    batches = observe(pipeline, clock, with_field(collected, "consumer_group", "epoch", [7, 8]))
    assert {row["group"]: row["epoch"] for row in rows_of(batches, "consumer_group")} == {"g": 7, "idle": 8}
    batches = observe(pipeline, clock, unreachable())
    assert {row["group"]: row["epoch"] for row in rows_of(batches, "consumer_group")} == {"g": 7, "idle": 8}


@pytest.mark.parametrize("table", ["consumer_lag", "consumer_group"])
def test_a_field_a_collector_adds_survives_a_restart_where_nothing_can_be_queried(table: str) -> None:
    clock, before = SettableClock(), ClusterState(Pipeline("east"))
    collected = with_field(poll({("t", 0): 10}, {("g", "t", 0): 4}), table, "epoch", [7])
    run = [replace(batch, at_ms=clock.wall_ms()) for batch in observe(before.pipeline, clock, collected)]
    live = observe(before.pipeline, clock, unreachable())
    after = ClusterState(Pipeline("east"))
    clock.advance(-10)
    after.replay(run, Moment.now(clock))
    after.finish_replay(Moment.now(clock))
    restarted = observe(after.pipeline, clock, unreachable())
    assert [row["epoch"] for row in rows_of(restarted, table)] == [7]
    assert rows_of(restarted, table) == rows_of(live, table), "and nothing that is computed is taken from the past"


def test_an_answer_about_an_unread_tail_is_not_shown_for_another_lag_after_a_restart() -> None:
    clock, state = SettableClock(), ClusterState(Pipeline("east"))
    run = observe(Pipeline("east"), clock, poll({("t", 0): 200}, {("g", "t", 0): 4}, at_ms=clock.wall_ms()))
    answered = [replace_columns(b, {"unread_tail": [1]}) if b.table == "consumer_lag" else b for b in run]
    state.replay(answered, Moment.now(clock))
    state.finish_replay(Moment.now(clock))
    assert [row["unread_tail"] for row in rows_of(observe(state.pipeline, clock, unreachable()), "consumer_lag")] == [
        None
    ]


def test_events_of_a_collector_reach_the_journal() -> None:
    clock = SettableClock()
    columns = {"kind": ["node_restarted"], "subject": ["broker 2"], "why": ["the JVM of broker 2 restarted"]}
    restarted = make_batch(EVENT, "east", clock.wall_ms(), columns)
    batches = Pipeline("east").observe(JMX, Collected([restarted], []), 0.1, Moment.now(clock))
    [event] = rows_of(batches, "event")
    assert (event["kind"], event["subject"], event["why"]) == (
        "node_restarted", "broker 2", "the JVM of broker 2 restarted",
    )  # fmt: skip
    assert {batch.source for batch in batches} == {JMX}


def test_two_batches_of_one_table_in_a_run_are_refused() -> None:
    clock = SettableClock()
    rows = [make_batch(BROKER, "east", 0, {"broker": [number]}) for number in (1, 2)]
    with pytest.raises(ValueError, match="jmx returned two batches of broker in one run"):
        Pipeline("east").observe(JMX, Collected(rows, []), 0.1, Moment.now(clock))


def test_every_batch_of_a_run_carries_its_source() -> None:
    simulation = simulate(then(keeping_up(5), 100, gone), from_topic=True)
    simulation.run(300)
    simulation.see(KAFKA, unreachable())
    runs = [{batch.source for batch in batches} - {"evaluation"} for batches in simulation.batches]
    assert all(len(sources) == 1 for sources in runs)
    assert set().union(*runs) == {KAFKA, COMMITS}
    assert {batch.source for batch in simulation.batches[-1] if batch.table == "cluster"} == {"evaluation"}


def without_verdicts(batch: Batch) -> Batch:
    rows = batch.rows
    for name in VERDICT_COLUMNS.get(batch.table, ()):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.nulls(rows.num_rows, rows.schema.field(at).type))
    return replace(batch, rows=rows)


def restarted_without_verdicts(simulation: Simulation) -> None:
    """Replay what was recorded with every verdict erased: a future rule could have decided."""
    recorded = simulation.batches
    simulation.batches = [[without_verdicts(batch) for batch in batches] for batches in recorded]
    simulation.restart()
    simulation.batches = recorded


@from_both
@pytest.mark.parametrize("at", [240, 420, 600])
def test_a_restart_infers_nothing_from_earlier_verdicts(at: int, from_topic: bool) -> None:
    def story() -> Simulation:
        return simulate(then(keeping_up(5), 250, then(reading(10), 500, standing_still())), from_topic=from_topic)

    whole = story().run(800)["g"]
    halved = story()
    verdicts = halved.run(at)["g"]
    restarted_without_verdicts(halved)
    assert verdicts + halved.run(800 - at)["g"] == whole


@from_both
def test_polls_that_failed_are_replayed_too(from_topic: bool) -> None:
    """How long the agent did not see a group decides whether a gap between its moves means anything."""

    def story(*, restart: bool) -> list[object]:
        simulation = simulate(keeping_up(40), from_topic=from_topic)
        simulation.run(300)
        for _ in range(30):
            for _ in range(10):
                simulation._advance()
            simulation.see(KAFKA, unreachable())
        if restart:
            simulation.restart()
        simulation.run(100)
        store = simulation.state.pipeline.evaluator.store
        return [store.note(name).tolist() for name in ("moved", "gap", "rule")]

    assert story(restart=True) == story(restart=False)
