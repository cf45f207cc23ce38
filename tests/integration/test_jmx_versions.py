"""Kafka 4.3.1, 4.1.2 and 3.9.2, with combined and separate roles: the same fields with the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from collectors.jmx_brokers import JmxBrokers
from collectors.jmx_client.gateway import JmxGateway
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_quorum import KafkaQuorum
from lagwatch.catalogue.jmx import BROKER_TRAFFIC, CONTROLLER, DISKS, LOAD, REPLICAS
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.jmx import PATIENT, by_node, collector, rows_of, until_complete
from tests.harness.waiting import wait_until

# Fields a version does not have.
MISSING = {
    "4.3.1": set[str](),
    "4.1.2": {"event_idle"},
    "3.9.2": {
        "event_idle", "failed_offset_partitions", "raft_voters", "shutting_down_brokers", "eligible_election_rate",
    },
}  # fmt: skip
# What is there on some nodes at some times: quotas, tiered storage, garbage, an election, or on the leader alone.
SOMETIMES = {
    "produce_throttle_ms", "fetch_throttle_ms", "request_throttle_ms", "remote_copy_lag_bytes", "remote_copy_lag_segments",
    "gc_mean_ms", "raft_election_latency_ms", "raft_election_latency_max_ms", "raft_commit_latency_ms",
    "raft_commit_latency_max_ms", "raft_observers", "raft_uncommitted_voter_change", "heartbeat_age_ms",
    "request_handler_idle", "raft_vote", "raft_poll_idle", "raft_fetch_rate", "raft_append_rate", "process_cpu_load",
}  # fmt: skip
OF_BROKERS = {field.name for part in (REPLICAS, BROKER_TRAFFIC, DISKS) for field in part} | {
    field.name for field in LOAD if field.name != "request_handler_idle"
}
OF_CONTROLLERS = {field.name for field in CONTROLLER}


@pytest.fixture(scope="module")
def gateway() -> Iterator[JmxGateway]:
    gateway = JmxGateway(PATIENT)
    yield gateway
    gateway.close()


@pytest.fixture(scope="module")
def fields(kafka: KafkaCluster, gateway: JmxGateway) -> set[str]:
    """Fields of a node of the newest version, broker and controller."""
    jmx = collector(kafka, gateway)
    until_complete(jmx)
    return set(by_node(until_complete(jmx))[1]) - SOMETIMES


@pytest.mark.parametrize("controllers", [0, 1], ids=["combined", "separate"])
@pytest.mark.parametrize("version", ["4.3.1", "4.1.2", "3.9.2"])
def test_the_same_fields_mean_the_same(
    version: str,
    controllers: int,
    fields: set[str],
    gateway: JmxGateway,
    start_kafka: Callable[..., KafkaCluster],
) -> None:
    kafka = start_kafka(1, controllers=controllers, version=version)
    kafka.create_topic("same", partitions=3, replication=1)
    jmx = collector(kafka, gateway)
    until_complete(jmx)
    kafka.produce("same", {0: 100, 1: 100})
    nodes = _settled(jmx)

    broker, controller = nodes[1], nodes[101 if controllers else 1]
    found = set(broker) | set(controller)
    assert found - SOMETIMES == fields - MISSING[version]
    assert broker["roles"] == ("broker" if controllers else "broker,controller")
    assert 0.5 < broker["request_handler_idle"] <= 1, "also where Kafka counts two pools"
    assert 0.5 < controller["request_handler_idle"] <= 1
    assert (controller["active_controller"], controller["active_brokers"], controller["fenced_brokers"]) == (1, 1, 0)
    assert controller["raft_state"] == "leader"
    assert broker["raft_leader"] == broker["metadata_controller"] == (101 if controllers else 1)
    assert broker["raft_epoch"] == controller["raft_epoch"]
    assert broker["broker_state"] == 3
    if controllers:
        assert controller["roles"] == "controller"
        assert not set(broker) & OF_CONTROLLERS, "absent on a node that is no controller"
        assert not set(controller) & OF_BROKERS, "a controller's own traffic is not the brokers'"
    _agrees_with_kafka(kafka, until_complete(jmx), controllers)


def _settled(jmx: JmxBrokers) -> dict[int, dict[str, Any]]:
    """The nodes once their meters, averages of a minute, tick and have forgotten the start."""
    wait_until(lambda: all(row.get("request_handler_idle", 0) > 0.5 for row in by_node(jmx.collect(0)).values()), 120)
    return by_node(until_complete(jmx))


def _agrees_with_kafka(kafka: KafkaCluster, collected: Any, controllers: int) -> None:
    connection = KafkaConnection(ConnectionOptions((kafka.bootstrap,)))
    try:
        polled = KafkaPoll("east", connection, deadline_seconds=30).collect(0)
        quorum = KafkaQuorum("east", connection).collect(0)
    finally:
        connection.close()
    api, jmx = by_node(polled)[1], by_node(collected)[1]
    assert (api["leaders"], api["partitions"]) == (jmx["jmx_leaders"], jmx["jmx_partitions"])
    (whole,), (by_jmx,) = rows_of(polled, "cluster"), rows_of(collected, "cluster")
    assert whole["under_replicated_partitions"] == by_jmx["jmx_under_replicated_partitions"] == 0
    assert whole["offline_partitions"] == by_jmx["jmx_offline_partitions"] == 0
    (leads,) = rows_of(quorum, "cluster")
    assert leads["active_controllers"] == by_jmx["jmx_active_controllers"] == 1
    assert leads["controller"] == jmx["metadata_controller"] == (101 if controllers else 1)
