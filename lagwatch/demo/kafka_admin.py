"""The client behind every call that changes a cluster on loopback: where its live brokers are enters, an admin leaves.

Each call waits until the cluster has noticed which brokers are gone, opens a client of its own to the others, so that it
works right after a broker was killed or paused, and is repeated while the answer is "not yet" (no coordinator, no leader).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from lagwatch.errors import LagwatchError

Result = TypeVar("Result")

READY_SECONDS = 30


class KafkaAdmin:
    """Something that can be administered; whoever inherits from it says where its live brokers are."""

    @property
    def live_brokers(self) -> Mapping[int, str]:
        """The addresses of the brokers that can answer now, by id."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until the live brokers have noticed which others are gone: until then some requests go to the dead."""
        raise NotImplementedError

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """A KafkaAdminClient to the live brokers, for whatever has no method here."""
        self.settle()
        client = KafkaAdminClient(
            bootstrap_servers=list(self.live_brokers.values()),
            bootstrap_timeout_ms=10_000,
            reconnect_backoff_max_ms=500,
        )
        try:
            yield client
        finally:
            client.close()


def until_ready(attempt: Callable[[], Result | None], complaint: str) -> Result:
    """The first result of an attempt that is not None; attempts to which Kafka answers "not yet" are repeated."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        reason: object = "not yet"
        try:
            result = attempt()
        except KafkaError as error:
            if not error.retriable:
                raise
            result, reason = None, error
        if result is not None:
            return result
        if time.monotonic() > deadline:
            raise LagwatchError(f"after {READY_SECONDS} s {complaint}: {reason}")
        time.sleep(0.05)
