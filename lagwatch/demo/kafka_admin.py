"""Opens admin clients to the live brokers of a cluster on loopback.

Each call waits until the cluster has noticed which brokers are down, opens its own client to the others, so that it works
right after a broker was killed or paused, and retries on retriable errors (no coordinator, no leader).
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
    """A cluster that can be administered; subclasses provide the addresses of its live brokers."""

    @property
    def live_brokers(self) -> Mapping[int, str]:
        """The addresses of the running brokers, by id."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until the live brokers have noticed which others are down: until then some requests go to those."""
        raise NotImplementedError

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """A KafkaAdminClient to the live brokers, for calls without a method here."""
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
    """The first result that is not None; retries on None and on retriable errors of Kafka."""
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
