"""JMX of real Kafka nodes: values equal those of a direct read, and a failing node affects only itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from collectors.jmx_beans.beans import DEFAULT_BEANS, Aggregation, Bean
from collectors.jmx_beans.parsing import as_number, parse_value
from collectors.jmx_client.gateway import JmxGateway
from collectors.jmx_client.jvm import GatewayOptions
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.jmx import PATIENT, by_node, collector, read_with_jmxquery, rows_of, until_complete
from tests.harness.processes import is_running
from tests.harness.waiting import wait_until

# What a quiet broker still changes up and down from one moment to the next.
GROUPS = "coordinated_groups"
UNSTEADY = {
    "heap_used_bytes", "process_cpu_load", "threads", "open_file_descriptors", "connections", "connection_creation_rate",
    "metadata_lag_ms", "controller_lag_ms", "fetch_purgatory", "produce_purgatory", "request_queue_size",
    "response_queue_size", "raft_poll_idle", "raft_fetch_rate", "raft_append_rate", "raft_commit_latency_ms",
    "raft_commit_latency_max_ms", "network_processor_idle", "event_idle", "offset_commit_rate", "rebalance_rate",
    "replica_max_lag", "event_queue_p99_ms", "event_processing_p99_ms", "log_flush_p99_ms", "fetch_sessions",
    "free_swap_bytes", "heartbeat_age_ms",
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway() -> Iterator[JmxGateway]:
    gateway = JmxGateway(PATIENT)
    yield gateway
    gateway.close()


def test_each_value_lies_between_a_direct_read_before_and_one_after(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    kafka.create_topic("jmx-values", partitions=3, replication=3)
    jmx, node = collector(kafka, gateway), kafka.node(1)
    kafka.produce("jmx-values", {0: 50, 1: 50, 2: 50})
    until_complete(jmx)
    exact = [bean for bean in DEFAULT_BEANS if "*" not in bean.bean and "." not in bean.attribute and bean.field]
    beans = dict.fromkeys((bean.bean, (bean.attribute,)) for bean in exact)

    before = read_with_jmxquery(node.jmx_port, beans)
    row = by_node(until_complete(jmx))[1]
    after = read_with_jmxquery(node.jmx_port, beans)

    counters = next(state._counters.counts for endpoint, state in jmx._nodes.items() if endpoint.node == 1)
    compared = 0
    for bean in exact:
        key = (bean.bean, bean.attribute)
        steady = bean.field not in {*UNSTEADY, GROUPS} and bean.how is not Aggregation.MEAN and bean.table == "broker"
        if steady and key in before and key in after:
            ours = counters.get(key) if bean.how is Aggregation.RATE else row.get(bean.field)
            compared += lies_between(bean, before[key], ours, after[key])
    assert compared > 70, "most of the table must have been compared"
    low, high = sorted(groups_in(values) for values in (before, after))
    assert low <= row[GROUPS] <= high


def groups_in(values: Mapping[tuple[str, str], Any]) -> float:
    """Groups of every protocol: the one field of a node that is a sum of several exact beans."""
    beans = [(bean.bean, bean.attribute) for bean in DEFAULT_BEANS if bean.field == GROUPS]
    assert len(beans) > 1
    return sum(float(values[bean]) for bean in beans if bean in values)


def lies_between(bean: Bean, before: Any, ours: Any, after: Any) -> bool:
    """Whether there is a value; fails when it is not between the others. jmxquery gives some numbers as text."""
    numbers = [as_number(parse_value(str(value))) for value in (before, after)]
    if None in numbers:
        assert ours is None or ours in (before, after), bean  # NaN, or a text
        return ours is not None
    low, high = sorted(
        value * (1 if bean.how is Aggregation.RATE else bean.scale) for value in numbers if value is not None
    )
    if ours is None:
        assert low in bean.absent, bean
        return False
    assert low - 0.05 <= ours <= high + 0.05, (bean, low, ours, high)  # seconds are kept to the tenth
    return True


def test_rates_are_what_was_really_produced(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    kafka.create_topic("jmx-rates", partitions=1, replication=1)
    jmx = collector(kafka, gateway)
    started = time.monotonic()
    until_complete(jmx)
    kafka.produce("jmx-rates", {0: 500})
    collected = until_complete(jmx)
    took = time.monotonic() - started  # the rate is over a little less than this
    (cluster,) = rows_of(collected, "cluster")
    assert cluster["messages_in_rate"] * took >= 500
    produce = [row for row in rows_of(collected, "broker_request") if row["request"] == "Produce" and row.get("rate")]
    assert sum(row["rate"] for row in produce) > 0
    assert all(row["total_p99_ms"] >= 0 for row in produce)
    assert any(row.get("total_mean_ms", -1) >= 0 for row in produce)


def test_every_node_reports_its_roles_and_one_of_them_leads(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    collected = until_complete(collector(kafka, gateway))
    nodes = by_node(collected)
    assert {row["roles"] for row in nodes.values()} == {"broker,controller"}
    assert sum(row["active_controller"] for row in nodes.values()) == 1
    assert {row["raft_leader"] for row in nodes.values()} == {row["metadata_controller"] for row in nodes.values()}
    assert {row["jmx_cluster_id"] for row in nodes.values()} == {kafka.cluster_id}
    jmx = collector(kafka, gateway)
    wait_until(lambda: all("request_handler_idle" in row for row in by_node(jmx.collect(0)).values()), 60)
    idle = {node: 0 < row["request_handler_idle"] <= 1 for node, row in by_node(until_complete(jmx)).items()}
    assert idle == dict.fromkeys((1, 2, 3), True)
    (cluster,) = rows_of(collected, "cluster")
    assert (cluster["jmx_active_controllers"], cluster["active_brokers"]) == (1, 3)


def test_a_killed_broker_is_reported_and_the_others_are_read(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    jmx = collector(kafka, gateway)
    until_complete(jmx)
    kafka.node(3).kill()
    collected = jmx.collect(0)
    assert [failure.target for failure in collected.failures] == ["broker 3"]
    assert set(collected.reached) == {"broker 1", "broker 2"}
    again = jmx.collect(0)
    assert [failure.reason for failure in again.failures] == [f"127.0.0.1:{kafka.node(3).jmx_port}: connection refused"]
    kafka.heal()
    restarted = until_complete(jmx)
    assert "bytes_in_rate" not in by_node(restarted)[3], "no rate over a restart"
    assert "bytes_in_rate" in by_node(restarted)[1]
    (event,) = rows_of(restarted, "event")
    assert (event["kind"], event["subject"]) == ("node_restarted", "broker 3")


def test_a_paused_broker_costs_its_deadline_and_is_skipped_until_it_responds(kafka: KafkaCluster) -> None:
    gateway = JmxGateway(GatewayOptions(deadline_seconds=8.0))
    try:
        jmx = collector(kafka, gateway, deadline_seconds=8.0)
        until_complete(jmx)
        kafka.node(3).pause()
        reasons = []
        for _ in range(4):
            started = time.monotonic()
            collected = jmx.collect(0)
            assert time.monotonic() - started < 8.0 + 4
            assert set(collected.reached) == {"broker 1", "broker 2"}, "the others do not wait for it"
            reasons += [failure.reason for failure in collected.failures if failure.target == "broker 3"]
        assert len(reasons) == 4
        assert any("no answer" in reason or "still pending" in reason for reason in reasons)
        kafka.node(3).resume()
        wait_until(lambda: not jmx.collect(0).failures, 60, lambda: str(jmx.collect(0).failures))
    finally:
        gateway.close()


def test_a_jvm_killed_under_the_agent_is_started_again(kafka: KafkaCluster) -> None:
    gateway = JmxGateway(PATIENT)
    try:
        jmx = collector(kafka, gateway)
        until_complete(jmx)
        first = gateway.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        collected = jmx.collect(0)
        assert [failure.target for failure in collected.failures] == ["", "broker 1", "broker 2", "broker 3"]
        assert all("the JVM for JMX ended" in failure.reason for failure in collected.failures)
        assert "bytes_in_rate" in by_node(until_complete(jmx))[1], "counters outlive the JVM that read them"
        assert gateway.pid not in (None, first)
        assert not is_running(first)
    finally:
        gateway.close()
    assert gateway.pid is None


def test_polling_leaves_no_warnings_in_the_brokers_logs(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    before = {node.id: warnings(node.log_since_start()) for node in kafka.brokers}
    jmx = collector(kafka, gateway)
    for _ in range(3):
        until_complete(jmx)
    assert {node.id: warnings(node.log_since_start()) for node in kafka.brokers} == before


def warnings(log: str) -> int:
    return log.count("Error getting JMX attribute")
