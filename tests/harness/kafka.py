"""Kafka for tests, by the launcher of the demo; a missing component fails the test with a hint what to install."""

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
    """A cluster for the duration of a `with` block, with the options of KafkaCluster.

    A cluster that cannot start fails the test: without Kafka the test proves nothing, so it is not skipped.
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
