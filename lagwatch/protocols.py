"""What the stages expect of each other: one small protocol per family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lagwatch.batch import Batch
from lagwatch.queries import TailAnswers, TimestampAnswers


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that could not be asked: what was asked, and the reason in words."""

    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run of a collector brought: the rows, and what it could not ask.

    `reached` names the targets that answered. `complete` means that whatever is not in the batches does not exist;
    otherwise it may just not have been queried. `ends_read` maps each broker that returned end offsets to the earliest
    and latest time it can have read them, in ms after the run began. `timestamp_answers` and `tail_answers` are the
    responses to the pipeline's queries (`lagwatch/queries.py`).
    """

    batches: Sequence[Batch]
    failures: Sequence[Failure]
    reached: Sequence[str] = ()
    complete: bool = True
    ends_read: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    timestamp_answers: TimestampAnswers | None = None
    tail_answers: TailAnswers | None = None


class Collector(Protocol):
    """Asks one family of things of one cluster.

    The constructor validates and never connects; the first `collect` does. `collect` blocks at most its own deadline and
    never retries: the next poll is the retry. What cannot be asked becomes a Failure; the rest is returned.
    """

    def collect(self, now_ms: int) -> Collected:
        """Ask once."""


class Sink(Protocol):
    """Takes polls from the journal to somewhere else.

    `shipping.py` around it owns cursors, back-off, splitting and counting. Polls may come more than once: writing one
    again must leave the same result.
    """

    name: str
    in_order: bool
    """Whether polls must come in order. Otherwise the newest come first after an outage, and the backlog behind them."""

    def write(self, poll: int, batches: Sequence[Batch]) -> None:
        """Take one poll. Raises SinkError."""

    def settled(self, poll: int) -> int:
        """The newest poll that need not come again, when all up to `poll` were written."""

    def close(self) -> None:
        """Let go of what it holds; what is not settled comes again."""
