"""Fixtures of the integration tests: a secured cluster, started once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.secured_kafka import secured_kafka, with_password


@pytest.fixture(scope="session")
def secured() -> Iterator[KafkaCluster]:
    """One secured node, its user with the documented ACLs; leave the ACLs as they were."""
    with secured_kafka() as cluster:
        yield cluster


@pytest.fixture
def configure(secured: KafkaCluster, tmp_path: Path) -> Callable[..., Path]:
    """Write the user's configuration: `configure(listener=..., password=..., ca_file=..., **cluster_keys)`."""
    return partial(with_password, tmp_path, secured)
