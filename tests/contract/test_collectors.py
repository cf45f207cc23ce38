"""What every collector promises, whatever it asks."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from collectors.jmx_brokers import JmxBrokers
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoints
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from collectors.jmx_client.parsing import JmxConnection
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_commits import KafkaCommits
from collectors.kafka_configs import KafkaConfigs
from collectors.kafka_logdirs import KafkaLogDirs
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_quorum import KafkaQuorum
from lagwatch.catalogue import BUILT_IN
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.protocols import Collector
from tests.harness.jmx import PATIENT
from tests.harness.ports import closed_port
from tests.harness.waiting import wait_until

NOW_MS = 1_800_000_000_000
DEADLINE_SECONDS = 1.5

Make = Callable[[str], Collector]
KINDS: list[type[KafkaPoll | KafkaCommits | KafkaConfigs | KafkaLogDirs | KafkaQuorum | JmxBrokers]] = [
    KafkaPoll,
    KafkaCommits,
    KafkaConfigs,
    KafkaLogDirs,
    KafkaQuorum,
    JmxBrokers,
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def make(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Iterator[Make]:
    """Builds the collector for some bootstrap servers, and closes its connections afterwards."""
    connections: list[KafkaConnection] = []
    gateway = JmxGateway(PATIENT)

    def build(bootstrap: str) -> Collector:
        connections.append(KafkaConnection(ConnectionOptions(tuple(bootstrap.split(",")))))
        if request.param is JmxBrokers:
            endpoints = Endpoints(ConfiguredEndpoints({}, {}, port=str(kafka.node(1).jmx_port)), connections[-1])
            by_rmi = partial(_by_rmi, gateway)
            # A quarter of its deadline is for asking Kafka where the brokers are.
            return JmxBrokers("east", by_rmi, endpoints, deadline_seconds=4 * DEADLINE_SECONDS)
        collector: Collector = request.param("east", connections[-1], deadline_seconds=DEADLINE_SECONDS)
        return collector

    yield build
    gateway.close()
    for connection in connections:
        connection.close()


def _by_rmi(gateway: JmxGateway, host: str, port: int) -> JmxConnection:
    return gateway.connect(RmiAddress(host, port))


def test_it_brings_batches_of_the_catalogue_with_the_poll_time(make: Make, kafka: KafkaCluster) -> None:
    kafka.produce(_topic(kafka), {0: 3})
    collector = make(kafka.bootstrap)
    wait_until(lambda: not collector.collect(0).failures, 60)  # the first ones also connect, and start a JVM

    collected = collector.collect(NOW_MS)

    assert not collected.failures
    assert collected.batches
    for batch in collected.batches:
        assert batch.rows.schema == BUILT_IN[batch.table].schema
        assert (batch.cluster, batch.at_ms) == ("east", NOW_MS)
        batch.rows.validate(full=True)


def _topic(kafka: KafkaCluster) -> str:
    name = f"contract.{time.monotonic_ns()}"
    kafka.create_topic(name, partitions=1, replication=1)
    return name


def test_building_it_connects_nowhere(make: Make) -> None:
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        make(f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(TimeoutError):
            server.accept()
    assert threading.active_count() == before


def test_nobody_listening_is_a_failure_and_not_an_exception(make: Make) -> None:
    collected = make(f"127.0.0.1:{closed_port()}").collect(NOW_MS)
    assert (list(collected.batches), collected.complete) == ([], False)
    (failure,) = collected.failures
    assert failure.target == ""
    assert "connection refused" in failure.reason


def test_a_server_that_never_answers_costs_the_deadline_and_no_more(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        collector = make(f"127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        collected = collector.collect(NOW_MS)
        took = time.monotonic() - started
    assert "no answer within" in collected.failures[0].reason
    assert took < DEADLINE_SECONDS + 2


def test_one_paused_broker_leaves_the_rest(make: Make, kafka: KafkaCluster) -> None:
    collector = make(kafka.bootstrap)
    wait_until(lambda: not collector.collect(0).failures, 60)
    kafka.node(3).pause()
    collected = collector.collect(NOW_MS)
    assert collected.batches, "the brokers that answer must be heard"
    assert {failure.target for failure in collected.failures} <= {"broker 3", "partitions", "controller"}
