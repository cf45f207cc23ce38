"""The protocols of collectors and sinks, and the values passed between the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lagwatch.batch import Batch
from lagwatch.broker_queries import TailAnswers, TimestampAnswers


@dataclass(frozen=True, slots=True)
class Failure:
    """One target that could not be queried, with the reason in words."""

    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of one run of a collector: the rows, and what it could not query.

    `reached` names the targets that answered. `complete` means that whatever is not in the batches does not exist;
    otherwise it may just not have been queried. `ends_read` maps each broker that returned end offsets to the earliest
    and latest time it can have read them, in ms after the run began. `timestamp_answers` and `tail_answers` are the
    responses to the pipeline's queries (`lagwatch/broker_queries.py`). `fallback` says why another source is used instead of
    this one, where that is no failure.
    """

    batches: Sequence[Batch]
    failures: Sequence[Failure]
    reached: Sequence[str] = ()
    complete: bool = True
    ends_read: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    timestamp_answers: TimestampAnswers | None = None
    tail_answers: TailAnswers | None = None
    fallback: str | None = None


class Collector(Protocol):
    """Polls one family of things of one cluster.

    The constructor validates and never connects; the first `collect` does. `collect` blocks at most its own deadline and
    never retries: the next poll is the retry. What cannot be queried becomes a Failure; the rest is returned.
    """

    @property
    def source(self) -> str:
        """The name of the source, as in the table `source`."""

    def collect(self, now_ms: int) -> Collected:
        """Poll once."""


@dataclass(frozen=True, slots=True)
class Job:
    """One collector of one cluster and how often it polls."""

    cluster: str
    source: str
    collector: Collector
    interval_seconds: float

    @property
    def name(self) -> str:
        """`east/kafka`."""
        return f"{self.cluster}/{self.source}"


class Sink(Protocol):
    """Writes polls from the journal to another system.

    `shipping.py` owns cursors, back-off, splitting and counting. A poll may be delivered more than once: writing it again
    must give the same result.
    """

    name: str
    in_order: bool
    """Whether polls must be delivered in order. Otherwise the newest go first after an outage, then the backlog."""

    def write(self, poll: int, batches: Sequence[Batch]) -> None:
        """Write one poll. Raises SinkError."""

    def settled(self, poll: int) -> int:
        """The newest poll that need not be delivered again, when all up to `poll` were written."""

    def close(self) -> None:
        """Release resources. Unsettled polls will be delivered again."""
