"""Sources and clusters that are removed from the configuration and added again start without the data of before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lagwatch.batch import make_batch
from lagwatch.catalogue import BROKER, CLUSTER
from lagwatch.clock import Moment, SettableClock
from lagwatch.columns import texts_of
from lagwatch.config import Settings, parse_settings
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected, Failure
from lagwatch.runtime.agent import Agent
from lagwatch.snapshot.from_journal import view_journal
from lagwatch.snapshot.health import Health
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.verdicts import read_verdicts
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import JMX, KAFKA
from tests.harness.polls import poll, rows_of, unreachable
from tests.harness.scripted_agents import WITH_JMX, run_job, scripted_agent, settings_of

TABLES = {"broker", "cluster", "consumer_lag", "consumer_group", "topic_partition"}


def clusters(folder: Path, *names: str) -> Settings:
    """Settings with these clusters."""
    listed = ", ".join(f"{{name: {name}, bootstrap: '127.0.0.1:1'}}" for name in names)
    return parse_settings(f"journal: {{path: {folder}/journal.db}}\nclusters: [{listed}]", "lagwatch.yml")


def view(folder: Path, clock: SettableClock, cluster: str = "east") -> ClusterView:
    """What a command reads from the journal."""
    return view_journal(folder / "journal.db", cluster, TABLES, clock)


def compare(agent: Agent, polls: int) -> list[str]:
    """Polls in which Kafka and JMX count different leaders; returns the reasons of the events."""
    kafka = make_batch(BROKER, "east", 0, {"broker": [1], "leaders": [5]})
    jmx = make_batch(BROKER, "east", 0, {"broker": [1], "jmx_leaders": [7]})
    of_jmx = make_batch(CLUSTER, "east", 0, {"jmx_active_controllers": [1]})
    newest = agent._journal.newest_poll
    for _ in range(polls):
        run_job(agent, "east/kafka", Collected([kafka], []))
        run_job(agent, "east/jmx", Collected([jmx, of_jmx], []))
    return events_after(agent, newest)


def groups_in(shown: ClusterView) -> list[str]:
    return [found.group for found in read_verdicts(shown, NamePatterns(), NamePatterns(), with_partitions=False)]


def events_after(agent: Agent, poll_number: int) -> list[str]:
    written = [batch for each in agent._journal.read(poll_number) for batch in each.batches]
    return [row["why"] for row in rows_of(written, "event")]


def failed(source: str) -> Collected:
    return Collected([], [Failure(source, "", "connection refused")], complete=False)


def test_jmx_that_is_added_again_and_fails_shows_nothing_of_before(tmp_path: Path) -> None:
    clock = SettableClock()
    with scripted_agent(settings_of(tmp_path, WITH_JMX), clock) as agent:
        compare(agent, 3)
        assert Health(view(tmp_path, clock)).disagreements()
        agent.reload(settings_of(tmp_path))
        agent.reload(settings_of(tmp_path, WITH_JMX))
        run_job(agent, "east/jmx", failed(JMX))
        found = view(tmp_path, clock)
    assert [(row["leaders"], row["jmx_leaders"]) for row in found.merged("broker")] == [(5, None)]
    assert Health(found).disagreements() == []
    assert [(each.source, each.reason) for each in found.failures] == [(JMX, "connection refused")]


def test_a_disagreement_ends_with_jmx_and_needs_three_polls_again(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path, WITH_JMX)) as agent:
        assert compare(agent, 3) == ["leaders of broker 1: Kafka reports 5, JMX 7, for 3 polls"]
        newest = agent._journal.newest_poll
        agent.reload(settings_of(tmp_path))
        assert events_after(agent, newest) == ["leaders of broker 1: Kafka and JMX can no longer be compared"]
        agent.reload(settings_of(tmp_path, WITH_JMX))
        assert compare(agent, 2) == []
        assert compare(agent, 1) == ["leaders of broker 1: Kafka reports 5, JMX 7, for 3 polls"]


@pytest.mark.parametrize("restarts", [False, True], ids=["reload", "restart"])
def test_a_cluster_that_is_added_again_and_unreachable_shows_no_group_of_before(restarts: bool, tmp_path: Path) -> None:
    clock = SettableClock()
    both, removed = clusters(tmp_path, "east", "west"), clusters(tmp_path, "east")
    polled = poll({("a", 0): 9}, {("g", "a", 0): 1})
    with scripted_agent(both, clock) as agent:
        run_job(agent, "west/kafka", replace(polled, batches=[replace(b, cluster="west") for b in polled.batches]))
        run_job(agent, "west/kafka", unreachable())
        assert groups_in(view(tmp_path, clock, "west")) == ["g"]
        if not restarts:
            agent.reload(removed)
    with scripted_agent(removed, clock):
        clock.advance(20 * 3600)
    with scripted_agent(both, clock) as agent:
        run_job(agent, "west/kafka", failed(KAFKA))
        found = view(tmp_path, clock, "west")
    assert groups_in(found) == []
    assert found.unreachable == "connection refused"
    assert Health(found).totals == {}


def test_a_cluster_removed_before_a_crash_has_no_history_when_it_is_added_again(tmp_path: Path) -> None:
    clock = SettableClock()
    both = clusters(tmp_path, "east", "west")
    polled = poll({("a", 0): 9}, {("g", "a", 0): 1})
    with scripted_agent(both, clock) as agent:
        run_job(agent, "west/kafka", replace(polled, batches=[replace(b, cluster="west") for b in polled.batches]))
    with scripted_agent(clusters(tmp_path, "east"), clock) as crashed:
        crashed._save = lambda: None  # type: ignore[method-assign]  # killed: no checkpoint at the end
    with scripted_agent(both, clock) as agent:
        state = agent._states["west"]
        assert (state.pipeline.evaluator.store.pairs(), state.pipeline.sources.names) == ([], set())
        assert state.snapshot.batches == {}


def test_a_cluster_retired_after_the_last_checkpoint_is_forgotten_in_the_replay() -> None:
    clock = SettableClock()
    polled = poll({("a", 0): 9}, {("g", "a", 0): 1}, at_ms=clock.wall_ms())
    before, now = ClusterState(Pipeline("east")), Moment.now(clock)
    run = before.observe(KAFKA, polled, 0.1, now)
    before.publish(run)
    restored = ClusterState(Pipeline("east"))
    for batches in (run, before.retire(now)):
        restored.replay(batches, now)
    restored.finish_replay(now)
    assert restored.pipeline.evaluator.store.pairs() == []
    clock.advance(10)
    assert rows_of(restored.observe(KAFKA, unreachable(), 0.1, Moment.now(clock)), "consumer_lag") == []


def test_the_last_batches_of_a_source_carry_no_names() -> None:
    clock = SettableClock()
    state, now = ClusterState(Pipeline("east")), Moment.now(clock)
    state.publish(state.observe(KAFKA, poll({("a", 0): 9}, {("g", "a", 0): 1}), 0.1, now))
    tables = {batch.table: batch for batch in state.retire(now) if batch.source == KAFKA}
    assert (len(tables["consumer_lag"]), texts_of(tables["consumer_lag"].rows, "group").values) == (0, [])


def test_a_source_retired_after_the_last_checkpoint_is_not_retired_again(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path, WITH_JMX)) as agent:
        run_job(agent, "east/jmx", failed(JMX))
        state = agent._states["east"]
        now = Moment.now(SettableClock())
        checkpoint = list(state.save(now.wall_ms))
        retired = state.retire(now)
    restored = ClusterState(Pipeline("east"))
    restored.load(checkpoint, now)
    assert restored.pipeline.sources.names == {JMX}
    restored.replay(retired, now)
    restored.finish_replay(now)
    assert restored.retire(now) == []
