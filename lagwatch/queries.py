"""Queries the pipeline leaves for brokers, and their answers: offsets by timestamp, and the content before a log end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Texts


@dataclass(frozen=True, slots=True)
class TimestampQuery:
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
class TimestampAnswers:
    """Answers with what was asked: the record's offset and its own time, or -1 where no record is that late."""

    key: npt.NDArray[np.int64]
    ask_ms: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    time_ms: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: npt.NDArray[Any]) -> TimestampAnswers:
        """Some of them."""
        return TimestampAnswers(self.key[at], self.ask_ms[at], self.end[at], self.offset[at], self.time_ms[at])


@dataclass(frozen=True, slots=True)
class TailQuery:
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


class TailContent(IntEnum):
    """What is left between an offset and the end."""

    UNKNOWN = -1
    RECORDS = 0
    NOTHING = 1  # only markers that end transactions, and records whose transaction was aborted


@dataclass(frozen=True, slots=True)
class TailAnswers:
    """Answers with what was asked; `left` is one of Left."""

    key: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    left: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.key)
