"""Failed brokers and controllers: reported in the first poll after Kafka itself reports them, with the suspect.

Health is reported with JMX and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from collectors.jmx_brokers import JmxBrokers
from collectors.jmx_client.gateway import JmxGateway
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_quorum import KafkaQuorum
from lagwatch.batch import replace_columns
from lagwatch.clock import Moment, SystemClock
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected
from tests.harness.jmx import PATIENT, by_node, collector, rows_of, until_complete
from tests.harness.polls import rows_of as batch_rows
from tests.harness.waiting import wait_until

TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def gateway() -> Iterator[JmxGateway]:
    gateway = JmxGateway(PATIENT)
    yield gateway
    gateway.close()


@pytest.fixture
def connect() -> Iterator[Callable[[KafkaCluster], KafkaConnection]]:
    connections: list[KafkaConnection] = []

    def make(kafka: KafkaCluster) -> KafkaConnection:
        connections.append(KafkaConnection(ConnectionOptions(tuple(kafka.bootstrap.split(",")))))
        return connections[-1]

    yield make
    for connection in connections:
        connection.close()


def under_replicated(kafka: KafkaCluster) -> tuple[int, int]:
    """As Kafka's own tool counts them: all, and those that have a leader to count them in its beans."""
    done = kafka.tool(TOPICS, "--describe", "--under-replicated-partitions")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "Partition:" in line]
    return len(lines), sum("Leader: none" not in line for line in lines)


def test_a_killed_broker_is_the_suspect_in_the_first_poll_after_kafka_reports_it(
    kafka: KafkaCluster, gateway: JmxGateway, connect: Callable[[KafkaCluster], KafkaConnection]
) -> None:
    kafka.create_topic("health", partitions=6, replication=3)
    poll, jmx = KafkaPoll("east", connect(kafka), deadline_seconds=30), collector(kafka, gateway)
    poll.collect(0)
    until_complete(jmx)
    kafka.node(2).kill()
    kafka.wait_for_brokers({1, 3})
    wait_until(lambda: under_replicated(kafka)[0] > 0, 60, "Kafka itself never reported it")

    without_jmx, with_jmx = poll.collect(0), jmx.collect(0)

    (seen,), (by_beans,) = rows_of(without_jmx, "cluster"), rows_of(with_jmx, "cluster")
    known, led = under_replicated(kafka)
    assert seen["under_replicated_partitions"] == known
    assert seen["suspect_broker"] == 2
    assert by_node(without_jmx)[2]["registered"] is False
    assert by_node(without_jmx)[2]["preferred_leader_imbalance"] == 1, "others lead all that prefers it"
    assert by_beans["jmx_under_replicated_partitions"] == led
    assert [failure.target for failure in with_jmx.failures] == ["broker 2"], "JMX suspects the same"
    assert by_beans["jmx_active_controllers"] == 1


def test_jmx_and_kafka_agree_on_a_healthy_cluster_and_differences_are_reported(
    kafka: KafkaCluster, gateway: JmxGateway, connect: Callable[[KafkaCluster], KafkaConnection]
) -> None:
    """A user who may not see all topics counts fewer leaders than the brokers do: as good as a missing right."""
    kafka.create_topic("health-agree", partitions=3, replication=3)
    connection = connect(kafka)
    pipeline, jmx = Pipeline("east"), collector(kafka, gateway)

    def round_of_both(*, blind: bool) -> dict[str, object]:
        now = Moment.now(SystemClock())
        polled = KafkaPoll("east", connection, deadline_seconds=30).collect(now.wall_ms)
        if blind:
            polled = _without_leaders(polled)
        pipeline.observe("kafka", polled, 0.1, now)
        (row,) = batch_rows(pipeline.observe("jmx", until_complete(jmx), 0.1, now), "cluster")
        return row

    wait_until(lambda: round_of_both(blind=False)["disagreements"] == 0, 60)
    for _ in range(4):  # in the first one the last values of Kafka still count
        row = round_of_both(blind=True)
    assert row["disagreements"] == 3
    assert "leaders of broker 1: Kafka reports 0, JMX" in str(row["disagreement"])


def _without_leaders(polled: Collected) -> Collected:
    batches = [
        replace_columns(batch, {"leaders": [0] * len(batch)}) if batch.table == "broker" else batch
        for batch in polled.batches
    ]
    return replace(polled, batches=batches)


def test_the_loss_of_two_of_three_controllers_is_reported(
    gateway: JmxGateway,
    connect: Callable[[KafkaCluster], KafkaConnection],
    start_kafka: Callable[..., KafkaCluster],
) -> None:
    kafka = start_kafka(1, controllers=3)
    jmx, quorum, pipeline = collector(kafka, gateway), KafkaQuorum("east", connect(kafka)), Pipeline("east")
    (before,) = rows_of(until_complete(jmx), "cluster")
    assert before["jmx_active_controllers"] == 1
    leader = by_node(until_complete(jmx))[1]["raft_leader"]
    other = next(node for node in (101, 102, 103) if node != leader)
    for node in (leader, other):
        kafka.node(node).kill()

    wait_until(lambda: _active(jmx) == 0, 90, lambda: str(by_node(jmx.collect(0))))
    wait_until(lambda: rows_of(quorum.collect(0), "cluster") == [{"active_controllers": 0}], 90)

    collected, now = quorum.collect(0), Moment.now(SystemClock())
    sources = batch_rows(pipeline.observe("kafka_quorum", collected, 0.1, now), "source")
    assert any(row["target"] == "controller" and "no controller" in (row["error"] or "") for row in sources)
    missing = {failure.target for failure in jmx.collect(0).failures}
    assert missing == {f"controller {leader}", f"controller {other}"}


def _active(jmx: JmxBrokers) -> object:
    (row,) = rows_of(jmx.collect(0), "cluster")
    return row.get("jmx_active_controllers")
