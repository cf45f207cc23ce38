"""Kafka for tests: the demo's own launcher, a missing component being a failure that says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.errors import LagwatchError
from tests.harness.ports import server_port


@contextmanager
def running_kafka(brokers: int = 3, **options: Any) -> Iterator[KafkaCluster]:
    """A cluster for the length of a `with` block; the options are those of KafkaCluster.

    A cluster that cannot start fails the test: without Kafka nothing is proved, so nothing is skipped.
    """
    cluster = KafkaCluster(brokers, **{"choose_port": server_port, **options})
    try:
        try:
            cluster.start()
        except LagwatchError as error:
            pytest.fail(f"no Kafka on loopback: {error}", pytrace=False)
        yield cluster
    finally:
        cluster.stop()
