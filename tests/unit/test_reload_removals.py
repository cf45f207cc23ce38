"""Sources and clusters that a reload or a restart removes are retired in the journal and return when configured again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lagwatch.batch import make_batch
from lagwatch.catalogue import BROKER, CLUSTER, COMMIT
from lagwatch.clock import Moment, SettableClock
from lagwatch.errors import LagwatchError
from lagwatch.journal import JournalReader
from lagwatch.protocols import Collected, Failure
from lagwatch.runtime.agent import Agent
from lagwatch.snapshot.from_journal import clusters_in, view_journal
from lagwatch.snapshot.health import Health
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import COMMITS, JMX, KAFKA
from tests.harness.polls import poll, rows_of
from tests.harness.scripted_agents import (
    FROM_POLLS,
    FROM_TOPIC,
    WITH_JMX,
    AgentSimulation,
    intervals,
    run_job,
    scripted_agent,
    settings_of,
    settings_with_clusters,
)
from tests.harness.simulated_consumers import half_speed


def jmx_failed(*targets: str) -> Collected:
    """A run of the JMX job that reached a broker, and others not."""
    row = make_batch(BROKER, "east", 0, {"broker": [1]})
    return Collected([row], [Failure(JMX, target, "connection refused") for target in targets], ["broker 1"])


def test_jmx_comes_and_goes_with_a_last_row_of_what_was_down(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path)) as agent:
        assert "east/jmx" not in intervals(agent)
        agent.reload(settings_of(tmp_path, WITH_JMX + "    intervals: {jmx: 20s}\n"))
        assert intervals(agent)["east/jmx"] == 20
        run_job(agent, "east/jmx", jmx_failed("broker 2", "broker 3"))
        assert JMX in agent._states["east"].snapshot.sources
        gateway, newest = agent._assembled.jmx.gateway, agent._journal.newest_poll

        agent.reload(settings_of(tmp_path))

        assert "east/jmx" not in intervals(agent)
        assert gateway._closed
        assert JMX not in agent._states["east"].snapshot.sources
        last = [batch for each in agent._journal.read(newest) for batch in each.batches]
        assert {(row["source"], row["target"], row["up"]) for row in rows_of(last, "source")} == {
            (JMX, "", True), (JMX, "broker 2", True), (JMX, "broker 3", True),
        }  # fmt: skip


def test_changed_jmx_keeps_what_it_brought_until_it_polls_again(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path, WITH_JMX)) as agent:
        run_job(agent, "east/jmx", jmx_failed())
        agent.reload(settings_of(tmp_path, "    jmx: {port: 9998}\n"))
        assert JMX in agent._states["east"].snapshot.sources


def test_a_source_that_is_not_configured_after_a_restart_is_retired_too(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path, WITH_JMX)) as agent:
        run_job(agent, "east/jmx", jmx_failed("broker 2"))
        newest = agent._journal.newest_poll
    with scripted_agent(settings_of(tmp_path)) as agent:
        assert JMX not in agent._states["east"].snapshot.sources
        last = [batch for each in agent._journal.read(newest) for batch in each.batches]
        assert [(row["target"], row["up"]) for row in rows_of(last, "source")] == [("", True), ("broker 2", True)]


@pytest.mark.parametrize("target", ["", "partition 3"])
def test_the_offsets_topic_that_was_down_is_retired_and_its_last_row_replays(target: str, tmp_path: Path) -> None:
    clock = SettableClock()
    with scripted_agent(settings_of(tmp_path, FROM_TOPIC), clock) as agent:
        commits = [make_batch(COMMIT, "east", 0, {name: [] for name in ("group", "topic", "partition")})]
        run_job(agent, f"east/{COMMITS}", Collected(commits, [Failure(COMMITS, target, "no right to read")]))
        newest = agent._journal.newest_poll
        agent.reload(settings_of(tmp_path, FROM_POLLS))
        (last,) = agent._journal.read(newest)
        assert [(row["target"], row["up"]) for row in rows_of(last.batches, "source")] == [
            (one, True) for one in sorted({"", target})
        ]
        state = agent._states["east"]
        state.replay(last.batches, Moment.now(clock))  # as a restart does whose newest checkpoint is damaged
        state.finish_replay(Moment.now(clock))
        assert not state.pipeline.evaluator.tailing


def journal_view(folder: Path, cluster: str = "east") -> ClusterView:
    """What a command reads from the journal."""
    return view_journal(folder / "journal.db", cluster, {"broker", "cluster", "consumer_lag"}, SettableClock())


def disagree(agent: Agent) -> None:
    """Three polls in which Kafka and JMX count different leaders."""
    kafka = make_batch(BROKER, "east", 0, {"broker": [1], "leaders": [5]})
    jmx = make_batch(BROKER, "east", 0, {"broker": [1], "jmx_leaders": [7]})
    for _ in range(3):
        run_job(agent, "east/kafka", Collected([kafka], []))
        run_job(
            agent, "east/jmx", Collected([jmx, make_batch(CLUSTER, "east", 0, {"jmx_active_controllers": [1]})], [])
        )


def read_topic(agent: Agent) -> None:
    """A run of the commits job that finds nothing new."""
    commits = make_batch(COMMIT, "east", 0, {name: [] for name in ("group", "topic", "partition")})
    run_job(agent, f"east/{COMMITS}", Collected([commits], []))


@pytest.mark.parametrize("restarts", [False, True], ids=["reload", "restart"])
def test_readers_of_the_journal_do_not_see_jmx_once_it_is_removed(restarts: bool, tmp_path: Path) -> None:
    removed = settings_of(tmp_path)
    with scripted_agent(settings_of(tmp_path, WITH_JMX)) as agent:
        disagree(agent)
        before = journal_view(tmp_path)
        assert Health(before).disagreements()
        assert [row["jmx_leaders"] for row in before.merged("broker")] == [7]
        if not restarts:
            agent.reload(removed)
            after = journal_view(tmp_path)
    if restarts:
        with scripted_agent(removed):
            after = journal_view(tmp_path)
    assert Health(after).disagreements() == []
    assert [(row["leaders"], row["jmx_leaders"]) for row in after.merged("broker")] == [(5, None)]
    assert after.snapshot.sources == {KAFKA}


@pytest.mark.parametrize("restarts", [False, True], ids=["reload", "restart"])
def test_readers_of_the_journal_do_not_see_the_offsets_topic_once_commits_are_polled(
    restarts: bool, tmp_path: Path
) -> None:
    with scripted_agent(settings_of(tmp_path, FROM_TOPIC)) as agent:
        run_job(agent, "east/kafka", poll({("a", 0): 9}, {("g", "a", 0): 1}))
        read_topic(agent)
        assert journal_view(tmp_path).snapshot.newest("source", COMMITS) is not None
        if not restarts:
            agent.reload(settings_of(tmp_path, FROM_POLLS))
            assert journal_view(tmp_path).snapshot.newest("source", COMMITS) is None
    for _ in range(2):
        with scripted_agent(settings_of(tmp_path, FROM_POLLS)):
            assert journal_view(tmp_path).snapshot.newest("source", COMMITS) is None


def test_a_source_that_is_configured_again_counts_again(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path, WITH_JMX)) as agent:
        disagree(agent)
        agent.reload(settings_of(tmp_path))
        agent.reload(settings_of(tmp_path, WITH_JMX))
        assert JMX not in journal_view(tmp_path).snapshot.sources
        run_job(agent, "east/jmx", jmx_failed("broker 2"))
        found = journal_view(tmp_path)
        assert [row["jmx_leaders"] for row in found.merged("broker")] == [None]
        assert [(failed.source, failed.target) for failed in found.failures] == [(JMX, "broker 2")]
        assert JMX in agent._states["east"].snapshot.sources


def test_a_source_is_retired_once(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path, WITH_JMX)) as agent:
        run_job(agent, "east/jmx", jmx_failed("broker 2"))
        agent.reload(settings_of(tmp_path))
        newest = agent._journal.newest_poll
        agent.reload(settings_of(tmp_path))
    with scripted_agent(settings_of(tmp_path)) as agent:
        assert rows_of([batch for each in agent._journal.read(newest) for batch in each.batches], "source") == []


def test_sources_retired_together_are_all_replayed(tmp_path: Path) -> None:
    """As by a restart whose newest checkpoint is damaged."""
    clock = SettableClock()
    with scripted_agent(settings_of(tmp_path, FROM_TOPIC + WITH_JMX), clock) as agent:
        read_topic(agent)
        run_job(agent, "east/jmx", jmx_failed())
        agent.reload(settings_of(tmp_path, FROM_POLLS))
        state = agent._states["east"]
        restored = type(state)(type(state.pipeline)("east"))
        for each in agent._journal.read(0):
            restored.replay(each.batches, Moment.now(clock))
        assert restored.snapshot.sources == set()
        assert not restored.pipeline.evaluator.tailing


def test_a_cluster_is_added_and_another_removed(tmp_path: Path) -> None:
    clock = SettableClock()
    with scripted_agent(settings_with_clusters(tmp_path, "west"), clock) as agent:
        simulation = AgentSimulation(agent, clock, {"g": (half_speed(0), 20.0)})
        before = simulation.run(150)["g"][-1]
        run_job(agent, "west/kafka", Collected([], [Failure("kafka", "", "refused")], complete=False))
        newest, kept = agent._journal.newest_poll, agent._states["east"]

        agent.reload(settings_with_clusters(tmp_path, "north"))

        assert set(agent._states) == {"east", "north"}
        assert agent._states["east"] is kept
        assert {name.split("/")[0] for name in intervals(agent)} == {"east", "north", "upkeep", "checkpoint"}
        last = [batch for each in agent._journal.read(newest) for batch in each.batches if batch.cluster == "west"]
        assert [(row["source"], row["target"], row["up"]) for row in rows_of(last, "source")] == [("kafka", "", True)]
        assert simulation.run(10)["g"][-1].status == before.status == "WARN"
        north = run_job(agent, "north/kafka", poll({("a", 0): 9}, {("g", "a", 0): 1}))
        assert rows_of(north, "consumer_lag")[0]["lag"] == 8


def poll_cluster(agent: Agent, cluster: str) -> None:
    """A poll of one group."""
    polled = poll({("a", 0): 9}, {("g", "a", 0): 1})
    batches = [replace(batch, cluster=cluster) for batch in polled.batches]
    run_job(agent, f"{cluster}/kafka", replace(polled, batches=batches))


@pytest.mark.parametrize("restarts", [False, True], ids=["reload", "restart"])
def test_readers_of_the_journal_do_not_see_a_cluster_once_it_is_removed(restarts: bool, tmp_path: Path) -> None:
    removed = settings_of(tmp_path)
    with scripted_agent(settings_with_clusters(tmp_path, "west")) as agent:
        poll_cluster(agent, "east")
        poll_cluster(agent, "west")
        assert clusters_in(JournalReader(tmp_path / "journal.db")) == ["east", "west"]
        if not restarts:
            agent.reload(removed)
    with scripted_agent(removed):
        assert clusters_in(JournalReader(tmp_path / "journal.db")) == ["east"]
        with pytest.raises(LagwatchError, match='no cluster "west"'):
            journal_view(tmp_path, "west")
    with scripted_agent(settings_with_clusters(tmp_path, "west")) as agent:
        poll_cluster(agent, "west")
        assert clusters_in(JournalReader(tmp_path / "journal.db")) == ["east", "west"]
