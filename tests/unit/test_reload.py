"""A reload applies the changed settings and keeps the state that stays valid."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from collectors.kafka_poll import KafkaPoll
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import COMMIT, TOPIC
from lagwatch.cli import run_command
from lagwatch.clock import Moment, SettableClock
from lagwatch.config import Settings
from lagwatch.errors import ConfigError
from lagwatch.pipeline.replay import restore_states
from lagwatch.protocols import Collected, Failure
from lagwatch.runtime.agent import Agent
from lagwatch.source_names import COMMITS, CONFIGS, LOGDIRS, QUORUM, TIMESTAMPS, UNREAD
from tests.harness.polls import poll, rows_of
from tests.harness.scripted_agents import (
    FROM_POLLS,
    FROM_TOPIC,
    WITH_JMX,
    AgentSimulation,
    collector_of,
    intervals,
    run_job,
    scripted_agent,
    settings_of,
    settings_with_clusters,
)
from tests.harness.simulated_consumers import (
    Behaviour,
    Rate,
    first,
    gone,
    half_speed,
    keeping_up,
    said,
    standing_still,
    then,
)
from tests.harness.window_batches import T0, slots_of


@pytest.mark.parametrize(
    ("before", "after"), [(FROM_TOPIC, FROM_POLLS), (FROM_POLLS, FROM_TOPIC)], ids=["topic to poll", "poll to topic"]
)
def test_a_consumer_at_half_speed_is_warn_after_a_reload_of_commits_slots_and_interval(
    before: str, after: str, tmp_path: Path
) -> None:
    clock = SettableClock()
    changed = settings_of(tmp_path, after + "    intervals: {kafka: 12s}\n    verdicts: {slots: 8}\n")
    with scripted_agent(settings_of(tmp_path, before), clock) as agent:
        simulation = AgentSimulation(agent, clock, {"g": (half_speed(200), 20.0)}, from_topic=before == FROM_TOPIC)
        assert said(simulation.run(180)["g"]) == {"OK"}
        simulation.reload(changed)
        assert first(simulation.run(180)["g"], "WARN") <= 330


def test_nothing_is_lost_when_other_settings_change(tmp_path: Path) -> None:
    """Every poll after the reload says what it says without one."""

    def story() -> dict[str, tuple[Behaviour, Rate]]:
        return {
            "fine": (keeping_up(5), 20.0),
            "slow": (half_speed(0), 20.0),
            "stalled": (then(keeping_up(2), 60, standing_still()), 20.0),
            "stopped": (then(keeping_up(2), 60, gone), 20.0),
        }

    found = []
    for reloads in (False, True):
        clock, folder = SettableClock(), tmp_path / str(reloads)
        folder.mkdir()
        with scripted_agent(settings_of(folder, FROM_TOPIC), clock) as agent:
            simulation = AgentSimulation(agent, clock, story(), from_topic=True)
            simulation.run(170)
            if reloads:
                others = f"agent: {{name: other}}\narchive: {{url: {folder}/archive}}\n"
                simulation.reload(
                    settings_of(folder, FROM_TOPIC + WITH_JMX + "    intervals: {logdirs: 20s}\n", others)
                )
            found.append(simulation.run(40))
    assert found[0] == found[1]
    assert {name: verdicts[0].status for name, verdicts in found[0].items()} == {
        "fine": "OK", "slow": "WARN", "stalled": "STALL", "stopped": "STOP",
    }  # fmt: skip


def test_a_restart_after_a_reload_changes_no_verdict(tmp_path: Path) -> None:
    """Polls from before the reload must not be replayed as if they had its settings, nor those after it as without."""
    settings = settings_of(tmp_path, FROM_POLLS)
    clock = SettableClock()
    with scripted_agent(settings_of(tmp_path, FROM_TOPIC), clock) as agent:
        simulation = AgentSimulation(agent, clock, {"g": (half_speed(120), 20.0)}, from_topic=True)
        simulation.run(100)
        simulation.reload(settings)
        simulation.run(150)
        state = agent._states["east"]
        kept = slots_of(state.pipeline.evaluator.store.windows())
        restored = {"east": type(state)(type(state.pipeline)("east", agent._assembled.jobs["east"].evaluator))}
        restore_states(agent._journal, restored, Moment.now(clock))
        assert slots_of(restored["east"].pipeline.evaluator.store.windows()) == kept
        assert len(kept) == 10


def windows_of(agent: Agent) -> list[tuple[int, int, float, int | None]]:
    return slots_of(agent._states["east"].pipeline.evaluator.store.windows())


@pytest.mark.parametrize(("slots", "kept", "same_after"), [(7, 7, 0), (15, 10, 100)], ids=["fewer", "more"])
def test_windows_of_another_width_keep_their_newest_commits(
    slots: int, kept: int, same_after: int, tmp_path: Path
) -> None:
    """As soon as they are full, verdicts and their reasons are those of windows that always had this width."""
    changed, found = f"    verdicts: {{slots: {slots}}}\n", []
    for reloads in (True, False):
        clock, folder = SettableClock(), tmp_path / str(reloads)
        folder.mkdir()
        with scripted_agent(settings_of(folder, "" if reloads else changed), clock) as agent:
            simulation = AgentSimulation(agent, clock, {"g": (half_speed(0), 20.0)})
            simulation.run(200)
            if reloads:
                full = windows_of(agent)
                simulation.reload(settings_of(folder, changed))
                assert windows_of(agent) == full[-kept:]
                assert len(full) == 10
            found.append(simulation.run(140)["g"])
            assert len(windows_of(agent)) == slots
    reloaded, always = ([verdict for verdict in each if verdict.second > 200 + same_after] for each in found)
    assert reloaded == always
    assert said(found[0]) == {"WARN"}


def test_other_intervals_reschedule_the_jobs_and_make_wider_slots(tmp_path: Path) -> None:
    clock = SettableClock()
    with scripted_agent(settings_of(tmp_path), clock) as agent:
        simulation = AgentSimulation(agent, clock, {"g": (half_speed(0), 20.0)})
        simulation.run(50)
        assert intervals(agent)["east/kafka"] == 10
        changed = settings_of(tmp_path, "    intervals: {kafka: 30s, quorum: 7s, logdirs: 2m, configs: 1h}\n")
        simulation.reload(changed)
        assert intervals(agent) == {
            "east/kafka": 30, f"east/{COMMITS}": 30, f"east/{TIMESTAMPS}": 30, f"east/{UNREAD}": 30, f"east/{QUORUM}": 7,
            f"east/{LOGDIRS}": 120, f"east/{CONFIGS}": 3600, "upkeep": 30, "checkpoint": 300,
        }  # fmt: skip
        simulation._poll_seconds = 10  # more often than the new width of a slot
        simulation.run(120)
        times = [at for _, _, at, _ in windows_of(agent) if at * 1000 + T0 > clock.wall_ms() - 100_000]
        assert min(later - earlier for earlier, later in pairwise(times)) >= 30


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ("allowed_lag: 1000000", "OK"),
        ("overrides: [{groups: 'g', allowed_lag: 1000000}]", "OK"),
        ("overrides: [{groups: 'other', allowed_lag: 1000000}]", "WARN"),
        ("disable: [trend]", "WARN"),
        ("minimum_complete: 1.0, slots: 50", "OK"),
    ],
)
def test_verdict_settings_apply_to_the_next_poll(verdicts: str, status: str, tmp_path: Path) -> None:
    clock = SettableClock()
    with scripted_agent(settings_of(tmp_path), clock) as agent:
        simulation = AgentSimulation(agent, clock, {"g": (half_speed(0), 20.0)})
        assert simulation.run(150)["g"][-1].status == "WARN"
        simulation.reload(settings_of(tmp_path, f"    verdicts: {{{verdicts}}}\n"))
        assert simulation.run(10)["g"][-1].status == status


def test_the_pipeline_sends_its_queries_to_the_new_jobs(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path)) as agent:
        agent.reload(settings_of(tmp_path))
        pipeline, jobs = agent._states["east"].pipeline, agent._assembled.jobs["east"]
        assert pipeline.write_times.queries is jobs.timestamp_queries
        assert pipeline.unread_tails.queries is jobs.tail_queries


def test_a_disabled_extension_has_no_job(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path)) as agent:
        agent.reload(settings_of(tmp_path, "    verdicts: {disable: [markers]}\n"))
        assert f"east/{UNREAD}" not in intervals(agent)
        agent.reload(settings_of(tmp_path))
        assert intervals(agent)[f"east/{UNREAD}"] == 10


def test_sinks_are_added_changed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    archive, influx = (
        f"archive: {{url: {tmp_path}/archive}}\n",
        "influxdb: {{url: {}, org: o, bucket: b, token_file: token}}\n",
    )
    with scripted_agent(settings_of(tmp_path)) as agent:
        agent.reload(settings_of(tmp_path, others=archive))
        assert list(agent._journal.stats().cursors) == ["archive"]

        agent.reload(settings_of(tmp_path, others=archive + influx.format("http://127.0.0.1:1")))
        assert set(agent._journal.stats().cursors) == {"archive", "influxdb"}
        threads = {thread.name for thread in threading.enumerate() if thread.is_alive()}
        assert {"ship-archive", "ship-influxdb"} <= threads

        agent.reload(settings_of(tmp_path, others=influx.format("http://127.0.0.1:2")))
        (shipper,) = agent._shipping._shippers
        assert getattr(shipper.sink, "_options").url == "http://127.0.0.1:2"  # noqa: B009
        assert list(agent._journal.stats().cursors) == ["influxdb"]
        assert "ship-archive" not in {thread.name for thread in threading.enumerate()}

        newest = agent._journal.newest_poll
        agent.reload(settings_of(tmp_path))
        assert not agent._journal.stats().cursors
        last = [batch for each in agent._journal.read(newest) for batch in each.batches]
        assert [(row["source"], row["up"]) for row in rows_of(last, "source")][-1] == ("influxdb", True)


def min_isr(agent: Agent) -> Mapping[str, int]:
    """The min.insync.replicas by which the job of the polls counts partitions below it."""
    polls = collector_of(agent, "east/kafka").real
    assert isinstance(polls, KafkaPoll)
    return polls._min_isr()


def test_min_insync_replicas_are_known_before_the_configs_are_fetched_again(tmp_path: Path) -> None:
    configs = make_batch(TOPIC, "east", 0, {"topic": ["a", "b", "c"], "min_isr": [2, None, 1]})
    with scripted_agent(settings_of(tmp_path)) as agent:
        assert min_isr(agent) == {}
        run_job(agent, f"east/{CONFIGS}", Collected([configs], []))
        agent.reload(settings_of(tmp_path))
        assert min_isr(agent) == {"a": 2, "c": 1}
        run_job(agent, f"east/{CONFIGS}", Collected([], [Failure(CONFIGS, "", "no answer")]))
        agent.reload(settings_of(tmp_path))
        assert min_isr(agent) == {"a": 2, "c": 1}, "also where the configs cannot be fetched"
    with scripted_agent(settings_of(tmp_path)) as agent:
        assert min_isr(agent) == {"a": 2, "c": 1}, "also after a restart"


def test_a_topic_and_a_group_no_longer_selected_leave_the_windows(tmp_path: Path) -> None:
    clock = SettableClock()
    with scripted_agent(settings_of(tmp_path), clock) as agent:
        for _ in range(3):
            run_job(agent, "east/kafka", poll({("a", 0): 9, ("b", 0): 9}, {("g", "a", 0): 1, ("h", "b", 0): 1}))
            clock.advance(10)
        agent.reload(settings_of(tmp_path, "    topics: {exclude: [b]}\n    groups: {exclude: [h]}\n"))
        for _ in range(3):
            run_job(agent, "east/kafka", poll({("a", 0): 9}, {("g", "a", 0): 1}))
            clock.advance(10)
        assert agent._states["east"].pipeline.evaluator.store.pairs() == [("g", "a")]


def test_journal_settings_apply_but_for_path_and_size(tmp_path: Path) -> None:
    clock = SettableClock()
    path = f"path: {tmp_path}/journal.db"
    with scripted_agent(settings_of(tmp_path), clock) as agent:
        run_job(agent, "east/kafka", poll({("a", 0): 9}, {("g", "a", 0): 1}, at_ms=clock.wall_ms()))
        clock.advance(700)
        agent._checkpoint()
        agent._checkpoint()  # what the older of two covers may go
        run_job(agent, "east/kafka", poll({("a", 0): 9}, {("g", "a", 0): 1}, at_ms=clock.wall_ms()))
        polls = {each.poll for each in agent._journal.read(0)}
        agent._journal.trim(clock.wall_ms())
        assert {each.poll for each in agent._journal.read(0)} == polls

        others = f"journal: {{{path}, history: 10m, partition_rows_every: 5s, checkpoint_every: 20s}}\n"
        agent.reload(settings_of(tmp_path, others=others))

        agent._journal.trim(clock.wall_ms())
        assert {each.poll for each in agent._journal.read(0)} == {max(polls)}
        assert agent._journal._trimming._every_ms == 5000
        assert intervals(agent)["checkpoint"] == 20


@pytest.mark.parametrize(
    ("journal", "refused"),
    [
        ("path: {folder}/other.db", ["journal.path"]),
        ("path: {folder}/journal.db, max_size: 1GiB", ["journal.max_size"]),
        ("path: {folder}/other.db, max_size: 1GiB", ["journal.path", "journal.max_size"]),
    ],
)
def test_what_needs_a_restart_is_refused_by_name_with_the_reason(
    journal: str, refused: list[str], tmp_path: Path
) -> None:
    with scripted_agent(settings_of(tmp_path)) as agent:
        before = (agent._settings, agent._runners, agent._scheduler, agent._assembled, agent._states)
        others = f"agent: {{name: other}}\njournal: {{{journal.format(folder=tmp_path)}, history: 10m}}\n"
        with pytest.raises(ConfigError) as error:
            agent.reload(settings_of(tmp_path, "    verdicts: {slots: 5}\n", others))
        assert [problem.split(": ")[0] for problem in error.value.problems] == refused
        assert all(", since the " in text for text in error.value.problems)
        assert all(text.endswith("; restart the agent") for text in error.value.problems)
        now = (agent._settings, agent._runners, agent._scheduler, agent._assembled, agent._states)
        assert all(mine is theirs for mine, theirs in zip(before, now, strict=True))
        assert agent._scheduler.running
        assert agent._states["east"].pipeline.evaluator.store.slots == 10
        assert agent._journal._trimming._history_ms == 24 * 3_600_000
        assert not (tmp_path / "other.db").exists()


def test_a_bad_file_is_refused_and_the_agent_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "lagwatch.yml"
    config.write_text("clusters:\n  - {name: east, bootstrap: '127.0.0.1:1', intervals: {kafka: soon}, slots: 1}\n")
    with scripted_agent(settings_of(tmp_path)) as agent:
        runners = agent._runners
        run_command._reload(agent, config)
        assert agent._runners is runners
        assert run_job(agent, "east/kafka", poll({("a", 0): 9}, {("g", "a", 0): 1}))
    refused = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(refused) == 2
    assert all(message.startswith("configuration not reloaded: ") for message in refused)


def late_run(agent: Agent, job: str, result: Collected, meanwhile: Settings) -> list[Batch]:
    """Reload while a run of this job is under way on another thread; returns what was journalled after the reload."""
    collector, runner = collector_of(agent, job), agent._runners[job]
    polling, go_on = threading.Event(), threading.Event()
    collector.result = result

    def hang() -> None:
        polling.set()
        go_on.wait(30)

    collector.before = hang
    thread = threading.Thread(target=runner.run)
    thread.start()
    assert polling.wait(30)
    agent.reload(meanwhile)
    newest = agent._journal.newest_poll
    go_on.set()
    thread.join(30)
    assert not thread.is_alive()
    return [batch for each in agent._journal.read(newest) for batch in each.batches]


def test_a_run_that_ends_after_the_reload_is_not_written(tmp_path: Path) -> None:
    """Of a job that no longer exists it would, for one, bring back the offsets topic as the source of commits."""
    with scripted_agent(settings_of(tmp_path, FROM_TOPIC)) as agent:
        run_job(agent, "east/kafka", poll({("a", 0): 9}, {("g", "a", 0): 1}))
        columns: dict[str, Any] = {"group": ["g"], "topic": ["a"], "partition": [0], "committed_offset": [5]}
        commit = make_batch(COMMIT, "east", 0, {**columns, "order": [1], "commit_time_ms": [1_700_000_000_000]})
        written = late_run(agent, f"east/{COMMITS}", Collected([commit], []), settings_of(tmp_path, FROM_POLLS))
        assert written == []
        assert not agent._states["east"].pipeline.evaluator.tailing


def test_a_run_that_has_not_begun_at_the_reload_does_not_begin(tmp_path: Path) -> None:
    with scripted_agent(settings_of(tmp_path)) as agent:
        old, collector = agent._runners["east/kafka"], collector_of(agent, "east/kafka")
        agent.reload(settings_of(tmp_path))
        collector.before = lambda: pytest.fail("it polls over a closed connection")
        old.run()
        assert old.started is None


def test_checkpoints_and_clock_steps_during_reloads_neither_fail_nor_wait_for_ever(tmp_path: Path) -> None:
    either = settings_with_clusters(tmp_path, "west"), settings_with_clusters(tmp_path, "north", "south")
    failed: list[BaseException] = []
    done = threading.Event()
    with scripted_agent(either[0]) as agent:

        def repeat(work: Any) -> None:
            while not done.is_set():
                try:
                    work()
                except BaseException as error:  # noqa: BLE001
                    failed.append(error)
                    return

        works = (agent._checkpoint, agent._upkeep, lambda: agent._clock_stepped(60.0))
        threads = [threading.Thread(target=repeat, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for number in range(12):
            agent.reload(either[(number + 1) % 2])
        done.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert failed == []
