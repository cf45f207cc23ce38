"""Fixtures for all tests: a running Kafka cluster, shared or private."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from kafka.net.inet import KafkaNetSocket

from collectors.kafka_client.session import ClosingSocket
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.kafka import running_kafka

# The same examples in every run: a failure comes from the change at hand and can be reproduced.
# No deadline for one example, and none for making it: a busy machine is not a fault.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

# A shell that starts the tests in the background ignores SIGINT for them; what they start and interrupt would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A client of kafka-python that cannot connect, because a test killed the broker, leaves its socket to the garbage collector:
# the warning would fail whatever test runs by then. The agent's own connections have this from the product.
KafkaNetSocket.connect = ClosingSocket.connect


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coverage of the core is that of its unit tests: what other tests happen to run does not count."""
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent / "unit"):
            item.add_marker("no_cover")


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """Three combined nodes of the newest Kafka, shared by all tests of a worker: use topic and group names of your own."""
    with running_kafka(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slow_to_fence() -> Iterator[KafkaCluster]:
    """Like `kafka`, but a broker is fenced only after a minute: one that a test pauses stays registered until then."""
    with running_kafka(3, settings={"broker.session.timeout.ms": "60000"}) as cluster:
        yield cluster


@pytest.fixture
def start_kafka() -> Iterator[Callable[..., KafkaCluster]]:
    """Start a cluster for one test: `start_kafka(brokers, controllers=3, version="3.9.2", ...)`."""
    with ExitStack() as clusters:
        yield lambda *args, **options: clusters.enter_context(running_kafka(*args, **options))


@pytest.fixture(autouse=True)
def _kafka_made_whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bring back the nodes of the shared clusters that a test killed, stopped or paused."""
    yield
    for cluster in {"kafka", "slow_to_fence"}.intersection(request.fixturenames):
        request.getfixturevalue(cluster).heal()
