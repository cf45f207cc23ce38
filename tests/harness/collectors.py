"""A collector in memory that obeys the protocol: a test decides which of its brokers respond."""

from __future__ import annotations

from collections.abc import Mapping

from lagwatch.batch import make_batch
from lagwatch.catalogue import BROKER
from lagwatch.protocols import Collected, Failure

REFUSED = "connection refused"
SILENT = "no answer within 1.5 s"


class FakeCollector:
    """Collects a row of `broker` for each broker that responds.

    `down` holds the reason why a broker does not; a test may change it between polls. A collector without brokers has
    nothing to collect.
    """

    source = "fake"

    def __init__(
        self, cluster: str, brokers: tuple[int, ...] = (1, 2, 3), down: Mapping[int, str] | None = None
    ) -> None:
        self.down = dict(down or {})
        self._cluster = cluster
        self._brokers = brokers

    def collect(self, now_ms: int) -> Collected:
        if not self._brokers:
            return Collected([], [])
        up = [broker for broker in self._brokers if broker not in self.down]
        if not up:
            reasons = "; ".join(f"broker {broker}: {self.down[broker]}" for broker in self._brokers)
            return Collected([], [Failure(self.source, "", f"no broker answered ({reasons})")], complete=False)
        failures = [Failure(self.source, f"broker {b}", self.down[b]) for b in self._brokers if b in self.down]
        batch = make_batch(BROKER, self._cluster, now_ms, {"broker": up})
        return Collected([batch], failures, [f"broker {broker}" for broker in up], complete=not failures)
