"""What the stages expect of each other: one small protocol per family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch, Texts


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that could not be asked: what was asked, and the reason in words."""

    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Probes:
    """Questions for brokers: which is the first record of a partition at or after a time?

    `key` and `end` (the partition's end known when the question was made) come back with the answer.
    """

    topic: Texts
    partition: npt.NDArray[np.int32]
    leader: npt.NDArray[np.int32]
    key: npt.NDArray[np.int64]
    ask_ms: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Probed:
    """Answers with what was asked: the record's offset and its own time, or -1 where no record is that late."""

    key: npt.NDArray[np.int64]
    ask_ms: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    time_ms: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: npt.NDArray[Any]) -> Probed:
        """Some of them."""
        return Probed(self.key[at], self.ask_ms[at], self.end[at], self.offset[at], self.time_ms[at])


@dataclass(frozen=True, slots=True)
class Stands:
    """Questions for brokers: is there anything to read between an offset of a partition and its end?

    `key` comes back with the answer. A partition is asked for one offset at a time.
    """

    topic: Texts
    partition: npt.NDArray[np.int32]
    leader: npt.NDArray[np.int32]
    key: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)


class Left(IntEnum):
    """What is left between an offset and the end."""

    NOT_TOLD = -1
    RECORDS = 0
    NOTHING = 1  # only markers that end transactions, and records whose transaction was aborted


@dataclass(frozen=True, slots=True)
class Remains:
    """Answers with what was asked; `left` is one of Left."""

    key: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    left: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run of a collector brought: the rows, and what it could not ask.

    `reached` names the targets that answered. `complete` means that what is not in the batches does not exist; otherwise
    it may only not have been asked. `ends_read` says of each broker that told end offsets how many milliseconds after the
    run began it read them, at the earliest and at the latest. `probed` are the answers of a run that asked for times,
    `remains` those of one that asked what is left to read.
    """

    batches: Sequence[Batch]
    failures: Sequence[Failure]
    reached: Sequence[str] = ()
    complete: bool = True
    ends_read: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    probed: Probed | None = None
    remains: Remains | None = None


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
