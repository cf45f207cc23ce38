"""The agent as a process: signals, reloads, clocks, kills and leftovers."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_poll import KafkaPoll
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.pipeline.checkpoint import cluster_part, unpack
from lagwatch.source_names import COMMITS, KAFKA
from lagwatch.windows import WindowStore, serialize
from tests.harness.agents import RunningAgent, rows_of, running_agent, write_config
from tests.harness.clocks import faked_clock
from tests.harness.kafka import running_kafka
from tests.harness.kills import kill_agent_while_it_writes
from tests.harness.ports import closed_port, is_connected
from tests.harness.waiting import wait_until
from tests.harness.window_batches import slots_of


def test_it_starts_without_kafka_and_recovers_by_itself(tmp_path: Path) -> None:
    with running_kafka(1) as kafka:
        kafka.create_topic("late", partitions=1, replication=1)
        kafka.node(1).stop()
        with running_agent(write_config(tmp_path, kafka.bootstrap)) as agent:
            poll = agent.wait_for("source", lambda rows: rows[0]["source"] == "kafka" and not rows[0]["up"])
            assert "connection refused" in rows_of(poll, "source")[0]["error"]
            kafka.node(1).start()
            agent.wait_for("topic", lambda rows: any(row["topic"] == "late" for row in rows), since=0)
            wait_until(lambda: any("source recovered" in message for message in agent.messages()), 10)


def test_sigterm_exits_with_0_within_10_seconds(kafka: KafkaCluster, tmp_path: Path) -> None:
    with running_agent(write_config(tmp_path, kafka.bootstrap)) as agent:
        wait_until(lambda: len(agent.polls()) >= 1, 30)
        assert agent.stop(seconds=10) == 0
    assert agent.reader.load_checkpoint() is not None


def test_sigterm_does_not_wait_for_a_broker_that_hangs(kafka: KafkaCluster, tmp_path: Path) -> None:
    hung = kafka.node(3)
    hung.pause()
    config = write_config(tmp_path, f"127.0.0.1:{hung.port}", interval=60, deadline_ms=50_000)
    with running_agent(config) as agent:
        wait_until(lambda: is_connected(agent.process.pid, hung.port), 30, "it never tried the paused broker")
        assert agent.stop(seconds=10) == 0


def test_sighup_takes_a_good_file_and_refuses_a_bad_one(kafka: KafkaCluster, tmp_path: Path) -> None:
    config = write_config(tmp_path, kafka.bootstrap)
    kafka.create_topic("reload.seen", partitions=1, replication=1)
    with running_agent(config) as agent:
        agent.wait_for("topic", lambda rows: any(row["topic"] == "reload.seen" for row in rows), since=0)
        good = config.read_text()
        config.write_text(good + "    topics: {exlude: [a], include: ['(']}\n")
        os.kill(agent.process.pid, 1)
        wait_until(lambda: sum("configuration not reloaded" in m for m in agent.messages()) >= 2, 10)
        assert any("exlude" in m and "did you mean" in m for m in agent.messages())
        agent.wait_for("topic_partition", lambda rows: any(row["topic"] == "reload.seen" for row in rows))

        config.write_text(good + "    topics: {exclude: ['reload[.].*']}\n")
        os.kill(agent.process.pid, 1)
        wait_until(lambda: any("configuration reloaded" in m for m in agent.messages()), 10)
        agent.wait_for("topic_partition", lambda rows: all(row["topic"] != "reload.seen" for row in rows))
        assert agent.stop() == 0


def test_sighup_changes_slots_commits_and_intervals_at_once(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The agent must not wait for commits from a job that is gone: windows go on with those of the polls."""
    kafka.create_topic("resized", partitions=1, replication=1)
    kafka.produce("resized", {0: 100})
    config = write_config(tmp_path, kafka.bootstrap, extra="    commits: topic\n    groups: {include: [resized]}\n")
    with running_agent(config) as agent:
        agent.wait_for("source", lambda rows: any(row["source"] == COMMITS and row["up"] for row in rows), since=0)
        kafka.commit("resized", {("resized", 0): 10})
        agent.wait_for("commit", lambda rows: any(row["committed_offset"] == 10 for row in rows), since=0)

        text = config.read_text().replace("kafka: 1s", "kafka: 3s").replace("commits: topic", "commits: poll")
        config.write_text(f"{text}    verdicts: {{slots: 5}}\n")
        os.kill(agent.process.pid, 1)
        wait_until(lambda: any("configuration reloaded" in m for m in agent.messages()), 10)
        reloaded = agent.newest()
        kafka.commit("resized", {("resized", 0): 60})
        first = agent.wait_for("consumer_lag", lambda rows: rows[0]["committed_offset"] == 60, since=reloaded)
        second = agent.wait_for("consumer_lag", lambda _: True, since=first.poll)
        assert second.at_ms - first.at_ms > 2500
        assert agent.stop() == 0
        sources = [row["source"] for poll in agent.polls("source", reloaded) for row in rows_of(poll, "source")]
        assert KAFKA in sources
        assert COMMITS not in sources

    saved = unpack(agent.reader.load_checkpoint().parts[cluster_part("east")])  # type: ignore[union-attr]
    parts = [(batch.table, batch.rows) for batch in saved if batch.table in {serialize.ENDS, serialize.WINDOWS}]
    assert serialize.slots_in(parts[0][1]) == 5
    store = WindowStore(5)
    serialize.load(store, parts)
    assert [offset for _, offset, _, _ in slots_of(store.windows())][-1] == 60


def test_only_changes_are_logged_not_polls(kafka: KafkaCluster, tmp_path: Path) -> None:
    config = write_config(tmp_path, kafka.bootstrap)
    config.write_text(config.read_text().replace("log_level: debug", "log_level: info"))
    with running_agent(config) as agent:
        wait_until(lambda: len(agent.polls()) >= 5, 30)
        assert [message.split(" name=")[0] for message in agent.messages()] == ["agent started"]


def test_a_second_agent_on_the_same_journal_is_refused(kafka: KafkaCluster, tmp_path: Path) -> None:
    config = write_config(tmp_path, kafka.bootstrap)
    with running_agent(config) as first:
        wait_until(lambda: len(first.polls()) >= 1, 30)
        second = RunningAgent(config)
        assert second.process.wait(timeout=20) == 2
        assert f"another lagwatch agent (pid {first.process.pid}) writes this journal" in first.log_file.read_text()


def test_fifty_failed_connects_leave_no_thread_and_no_descriptor() -> None:
    connection = KafkaConnection(ConnectionOptions((f"127.0.0.1:{closed_port()}",)))
    poll = KafkaPoll("nowhere", connection, deadline_seconds=1)
    poll.collect(0)
    threads, descriptors = threading.active_count(), _descriptors()

    for _ in range(50):
        collected = poll.collect(0)
        assert "connection refused" in collected.failures[0].reason

    assert threading.active_count() <= threads
    assert _descriptors() <= descriptors


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_twenty_kills_while_it_writes_lose_nothing_and_double_nothing(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("killed", partitions=3, replication=1)
    kafka.commit("killed", {("killed", p): 0 for p in range(3)})
    kill_agent_while_it_writes(tmp_path, kafka.bootstrap, kills=20, random=random.Random(7))


@pytest.mark.parametrize("step_seconds", [3600, -3600])
def test_a_clock_set_by_an_hour_misses_no_poll_and_makes_no_burst(
    kafka: KafkaCluster, tmp_path: Path, step_seconds: int
) -> None:
    kafka.create_topic(f"stepped.{step_seconds}")
    kafka.commit(f"stepped.{step_seconds}", {(f"stepped.{step_seconds}", 0): 0})
    # Time enough for every poll: a machine too busy to answer one in time is not what is tried here.
    config = write_config(tmp_path, kafka.bootstrap, interval=3, deadline_ms=2900)
    with faked_clock(tmp_path) as clock, running_agent(config, clock.env) as agent:
        wait_until(lambda: _runs(agent) >= 3, 30)
        clock.step(step_seconds)
        before = _runs(agent)
        wait_until(lambda: any("wall clock stepped" in m for m in agent.messages()), 5)
        watched_from = time.monotonic()
        wait_until(lambda: _runs(agent) >= before + 4, 18, lambda: f"polls stopped: {agent.messages()[-5:]}")
        took = time.monotonic() - watched_from

        assert took > 6, f"4 polls of a 3 s job within {took:.1f} s are a burst"
        events = [row for poll in agent.polls("event") for row in rows_of(poll, "event")]
        assert Counter(event["kind"] for event in events)["clock_step"] == 1
        after = agent.wait_for("consumer_lag", lambda _: True)  # the very next poll, whatever it says
        stale = {row["group"]: row["stale"] for row in rows_of(after, "consumer_lag")}
        assert stale[f"stepped.{step_seconds}"] is False
        assert True not in stale.values()
        sources = {row["target"]: (row["up"], row["last_success_age_seconds"]) for row in rows_of(after, "source")}
        assert sources == dict.fromkeys(("", "broker 1", "broker 2", "broker 3"), (True, 0))


def _runs(agent: RunningAgent) -> int:
    return sum("poll job=east/kafka " in message for message in agent.messages())
