"""The agent with JMX: rows in its journal, user-defined beans, and a JVM that starts and ends with the agent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.snapshot.from_journal import view_journal
from tests.harness.agents import RunningAgent, rows_of, running_agent, write_config
from tests.harness.processes import is_running
from tests.harness.waiting import wait_until

OWN = """
jmx:
  deadline: 2500ms
  beans:
    - {bean: 'java.lang:type=MemoryPool,name=*', attribute: Usage.used, field: used_bytes, table: pool, labels: {pool: name}}
    - {bean: 'kafka.server:type=app-info,id=*', attribute: Version, field: kafka_version, how: text}
    - {bean: 'java.lang:type=ClassLoading', attribute: TotalLoadedClassCount, field: class_loading_rate, how: rate}
"""


def config(kafka: KafkaCluster, folder: Path) -> Path:
    where = ", ".join(f"{node.id}: '127.0.0.1:{node.jmx_port}'" for node in kafka.brokers)
    path = write_config(folder, kafka.bootstrap)
    text = path.read_text().replace("intervals: {", "intervals: {jmx: 3s, ")
    path.write_text(f"{text.rstrip()}\n    jmx: {{brokers: {{{where}}}, topics: true}}\n{OWN}")
    return path


def jvm_of(agent: RunningAgent) -> int | None:
    """The agent's only child."""
    children = Path(f"/proc/{agent.process.pid}/task").glob("*/children")
    found = [int(word) for file in children for word in file.read_text().split()]
    return found[0] if found else None


def complete(rows: list[dict[str, object]]) -> bool:
    return len(rows) == 3 and all(row["bytes_in_rate"] is not None for row in rows)


def test_vital_signs_reach_the_journal_with_the_users_own_beans(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("agent-jmx", partitions=3, replication=3)
    kafka.produce("agent-jmx", {0: 10})
    with running_agent(config(kafka, tmp_path)) as agent:
        poll = agent.wait_for("broker", complete, 60)
        brokers = rows_of(poll, "broker")
        assert {row["kafka_version"] for row in brokers} == {kafka.version}
        assert all(row["class_loading_rate"] is not None for row in brokers)
        metaspace = {row["broker"]: row["used_bytes"] for row in rows_of(poll, "pool") if row["pool"] == "Metaspace"}
        assert set(metaspace) == {1, 2, 3}
        assert all(used > 0 for used in metaspace.values())
        assert "agent-jmx" in {row["topic"] for row in rows_of(poll, "topic")}
        targets = {row["target"] for row in rows_of(poll, "source")}
        assert targets == {"", "broker 1", "broker 2", "broker 3"}
        agent.stop()
    seen = view_journal(tmp_path / "journal.db", "east", {"broker"})
    assert {row["leaders_ratio"] is not None for row in seen.merged("broker")} == {True}


def test_the_jvm_is_started_again_when_it_dies_and_ends_with_the_agent(kafka: KafkaCluster, tmp_path: Path) -> None:
    with running_agent(config(kafka, tmp_path)) as agent:
        agent.wait_for("broker", complete, 60)
        first = jvm_of(agent)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: jvm_of(agent) not in (None, first), 60, "no new JVM")
        agent.wait_for("broker", complete, 60)
        assert any("JMX gateway ended, restarting exit_code=-9" in message for message in agent.messages())
        second = jvm_of(agent)
        assert second is not None
        agent.kill()
        wait_until(lambda: not is_running(second), 30, "the JVM outlived the agent")


def test_an_orderly_stop_ends_the_jvm_too(kafka: KafkaCluster, tmp_path: Path) -> None:
    with running_agent(config(kafka, tmp_path)) as agent:
        agent.wait_for("broker", complete, 60)
        jvm = jvm_of(agent)
        assert jvm is not None
        assert agent.stop() == 0
        assert not is_running(jvm)
