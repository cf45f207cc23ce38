"""The contract of every collector, including the in-memory one."""

from __future__ import annotations

import importlib
import pkgutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
import pytest

import collectors
from collectors.jmx_brokers import JmxBrokers
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoints
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_commits import KafkaCommits
from collectors.kafka_configs import KafkaConfigs
from collectors.kafka_logdirs import KafkaLogDirs
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_quorum import KafkaQuorum
from collectors.kafka_timestamps import KafkaTimestamps
from collectors.kafka_unread import KafkaUnread
from lagwatch.batch import Texts
from lagwatch.broker_queries import TailQuery, TimestampQuery
from lagwatch.catalogue import BUILT_IN
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.protocols import Collected, Collector
from tests.harness.collectors import REFUSED, SILENT, FakeCollector
from tests.harness.jmx import PATIENT
from tests.harness.ports import closed_port
from tests.harness.waiting import wait_until

NOW_MS = 1_800_000_000_000
DEADLINE_SECONDS = 1.5
# Brokers that are alive must respond on a busy machine too, and the paused one must not be fenced before the metadata
# is read, which takes Kafka at least 2 s.
PAUSED_DEADLINE_SECONDS = 3.0
GROUP = "contract"
BROKERS = (1, 2, 3)


class Target(Enum):
    """What a collector is pointed at."""

    CLUSTER = auto()
    NOTHING_LISTENS = auto()
    NEVER_RESPONDS = auto()


@dataclass(frozen=True, slots=True)
class Promise:
    """What one collector brings from a healthy cluster, and whether it needs each broker or any one of them."""

    tables: frozenset[str]
    reached: tuple[str, ...]
    every_broker: bool
    answers: int = 0  # to queries of the pipeline


EVERY = tuple(f"broker {broker}" for broker in BROKERS)
PROMISES: dict[type[Any], Promise] = {
    KafkaPoll: Promise(
        frozenset({"consumer_lag", "consumer_group", "topic_partition", "topic", "broker", "cluster"}), EVERY, True
    ),
    KafkaCommits: Promise(frozenset({"commit"}), EVERY, True),
    KafkaConfigs: Promise(frozenset({"topic"}), (), False),
    KafkaLogDirs: Promise(frozenset({"topic_partition", "topic", "broker", "cluster"}), EVERY, True),
    KafkaQuorum: Promise(frozenset({"cluster", "broker"}), ("controller",), False),
    KafkaTimestamps: Promise(frozenset(), EVERY, True, answers=3),
    KafkaUnread: Promise(frozenset(), EVERY, True, answers=3),
    JmxBrokers: Promise(frozenset({"broker", "broker_request", "cluster"}), EVERY, True),
    FakeCollector: Promise(frozenset({"broker"}), EVERY, True),
}


class CollectorCase:
    """One kind of collector, and the targets it can be pointed at."""

    def __init__(self, kind: type[Any], kafka: KafkaCluster, topic: str, silent: socket.socket) -> None:
        self.kind, self.promise = kind, PROMISES[kind]
        self._kafka, self._topic = kafka, topic
        self._bootstrap = {
            Target.CLUSTER: kafka.bootstrap,
            Target.NOTHING_LISTENS: f"127.0.0.1:{closed_port()}",
            Target.NEVER_RESPONDS: f"127.0.0.1:{silent.getsockname()[1]}",
        }
        self._fake = FakeCollector("east")
        self.closing = ExitStack()

    def make(self, target: Target, deadline_seconds: float = DEADLINE_SECONDS) -> Collector:
        if self.kind is FakeCollector:
            reason = {Target.NOTHING_LISTENS: REFUSED, Target.NEVER_RESPONDS: SILENT}.get(target)
            self._fake.down = dict.fromkeys(BROKERS, reason) if reason else {}
            return self._fake
        connection = KafkaConnection(ConnectionOptions(tuple(self._bootstrap[target].split(","))))
        self.closing.callback(connection.close)
        if self.kind is JmxBrokers:
            return self._jmx(target, connection, deadline_seconds)
        options: dict[str, Any] = {"deadline_seconds": deadline_seconds}
        made: Collector
        if self.kind in (KafkaTimestamps, KafkaUnread):
            query = timestamp_query if self.kind is KafkaTimestamps else tail_query
            made = self.kind(connection, next_query=lambda: query(self._topic), **options)
        else:
            made = self.kind("east", connection, **options)
        return made

    def pause(self, broker: int) -> None:
        if self.kind is FakeCollector:
            self._fake.down[broker] = SILENT
        else:
            self._kafka.node(broker).pause()

    def _jmx(self, target: Target, connection: KafkaConnection, deadline_seconds: float) -> JmxBrokers:
        gateway = JmxGateway(PATIENT)
        self.closing.callback(gateway.close)
        # The brokers share a host, so one port for all would be that of one broker: only it is found in the metadata.
        found, *others = self._kafka.brokers
        listed = {node.id: ("127.0.0.1", node.jmx_port) for node in others if target is Target.CLUSTER}
        endpoints = Endpoints(ConfiguredEndpoints(listed, {}, port=str(found.jmx_port)), connection)
        made = JmxBrokers(
            "east",
            lambda host, port: gateway.connect(RmiAddress(host, port)),
            endpoints,
            deadline_seconds=4 * deadline_seconds,  # a quarter of it is for fetching the brokers' addresses from Kafka
        )
        self.closing.callback(made.close)
        return made


def timestamp_query(topic: str) -> TimestampQuery:
    """The first record of each partition; partition and leader are numbered alike."""
    count = np.arange(3, dtype=np.int64)
    return TimestampQuery(_texts(topic), _int32(count), _int32(count + 1), count, 0 * count, count)


def tail_query(topic: str) -> TailQuery:
    """The last of the three records of each partition."""
    count = np.arange(3, dtype=np.int64)
    return TailQuery(_texts(topic), _int32(count), _int32(count + 1), count, 0 * count + 2, 0 * count + 3)


def _texts(topic: str) -> Texts:
    return Texts(np.zeros(3, np.int32), [topic])


def _int32(numbers: Any) -> Any:
    return numbers.astype(np.int32)


@pytest.fixture(scope="module")
def kafka(slow_to_fence: KafkaCluster) -> KafkaCluster:
    """A paused broker must stay in the metadata, or collectors do not query it."""
    return slow_to_fence


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> str:
    """Three partitions of three records, one on each broker, with a commit."""
    name = f"contract.{time.monotonic_ns()}"
    kafka.create_topic(name, assignment={broker - 1: [broker] for broker in BROKERS})
    kafka.produce(name, dict.fromkeys(range(3), 3))
    kafka.commit(GROUP, {(name, 0): 1})
    return name


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


@pytest.fixture(params=PROMISES, ids=lambda kind: kind.__name__)
def case(
    request: pytest.FixtureRequest, kafka: KafkaCluster, topic: str, silent: socket.socket
) -> Iterator[CollectorCase]:
    made = CollectorCase(request.param, kafka, topic, silent)
    with made.closing:
        yield made


def responding(case: CollectorCase, deadline_seconds: float = DEADLINE_SECONDS) -> Collector:
    """A collector after a poll without failures: the first ones also connect, and start a JVM."""
    made = case.make(Target.CLUSTER, deadline_seconds)
    wait_until(lambda: not made.collect(0).failures, 60)
    return made


def answers(collected: Collected) -> int:
    return sum(len(part) for part in (collected.timestamp_answers, collected.tail_answers) if part is not None)


def test_the_suite_covers_every_collector() -> None:
    found = set()
    for module in pkgutil.iter_modules(collectors.__path__):
        members = vars(importlib.import_module(f"collectors.{module.name}")) if not module.ispkg else {}
        found |= {m for m in members.values() if isinstance(m, type) and "collect" in vars(m)}
    assert found == set(PROMISES) - {FakeCollector}


def test_it_brings_rows_of_the_catalogue_with_the_poll_time(
    case: CollectorCase, kafka: KafkaCluster, topic: str
) -> None:
    collector = responding(case)
    kafka.commit(GROUP, {(topic, 0): 2})

    collected = collector.collect(NOW_MS)

    assert (list(collected.failures), collected.complete) == ([], True)
    assert sorted(collected.reached) == sorted(case.promise.reached)
    assert {batch.table for batch in collected.batches if len(batch)} >= case.promise.tables
    assert answers(collected) == case.promise.answers
    for batch in collected.batches:
        assert batch.rows.schema == BUILT_IN[batch.table].schema
        assert (batch.cluster, batch.at_ms) == ("east", NOW_MS)
        batch.rows.validate(full=True)


def test_building_it_connects_nowhere(case: CollectorCase, silent: socket.socket) -> None:
    before = threading.active_count()
    case.make(Target.NEVER_RESPONDS)
    with pytest.raises(TimeoutError):
        silent.accept()
    assert threading.active_count() == before


def test_connection_refused_is_a_failure_and_not_an_exception(case: CollectorCase) -> None:
    collected = case.make(Target.NOTHING_LISTENS).collect(NOW_MS)
    assert (list(collected.batches), list(collected.reached), collected.complete) == ([], [], False)
    [failure] = collected.failures
    assert (failure.source, failure.target) == (case.kind.source, "")
    assert "connection refused" in failure.reason


def test_a_server_that_never_responds_costs_the_deadline_and_no_more(case: CollectorCase) -> None:
    collector = case.make(Target.NEVER_RESPONDS)
    started = time.monotonic()
    collected = collector.collect(NOW_MS)
    took = time.monotonic() - started
    assert (list(collected.batches), list(collected.reached), collected.complete) == ([], [], False)
    [failure] = collected.failures
    assert (failure.source, failure.target) == (case.kind.source, "")
    assert "no answer within" in failure.reason
    assert took < DEADLINE_SECONDS + 2


def test_a_paused_broker_is_reported_and_the_rest_is_collected(case: CollectorCase, kafka: KafkaCluster) -> None:
    """A collector that any broker can serve fails over instead: then there is nothing to report."""
    collector = responding(case, PAUSED_DEADLINE_SECONDS)
    paused = first_that_is_no_active_controller(kafka)
    case.pause(paused)

    collected = collector.collect(NOW_MS)

    unreached = [f"broker {paused}"] if case.promise.every_broker else []
    assert [(f.source, f.target) for f in collected.failures] == [(case.kind.source, target) for target in unreached]
    assert all("no answer within" in failure.reason for failure in collected.failures)
    assert sorted(collected.reached) == sorted(set(case.promise.reached) - set(unreached))
    assert {batch.table for batch in collected.batches} >= case.promise.tables
    assert answers(collected) == max(0, case.promise.answers - len(unreached))
    assert collected.complete is not case.promise.every_broker


def first_that_is_no_active_controller(kafka: KafkaCluster) -> int:
    """Collectors send to the first broker first; without an active controller the quorum has no leader to describe."""
    with kafka.admin() as admin:
        [topic] = admin.describe_metadata_quorum()["topics"]
    [partition] = topic["partitions"]
    return min(broker for broker in BROKERS if broker != partition["leader_id"])
