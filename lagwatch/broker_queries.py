"""Queries that the pipeline queues for brokers, with their answers: offsets by timestamp, and records before a log end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Texts

MAX_TIMESTAMP_QUERIES = 2000  # in one run of the timestamps job


@dataclass(frozen=True, slots=True)
class TimestampQuery:
    """ListOffsets queries: the first record of a partition at or after `target_ms`.

    The answer repeats `key` and `end`, the partition's end offset when the query was made.
    """

    topic: Texts
    partition: npt.NDArray[np.int32]
    leader: npt.NDArray[np.int32]
    key: npt.NDArray[np.int64]
    target_ms: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class TimestampAnswers:
    """Answers beside their queries: the record's offset and timestamp, both -1 where no record is that late."""

    key: npt.NDArray[np.int64]
    target_ms: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    time_ms: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: npt.NDArray[Any]) -> TimestampAnswers:
        """The rows at these positions."""
        return TimestampAnswers(self.key[at], self.target_ms[at], self.end[at], self.offset[at], self.time_ms[at])


@dataclass(frozen=True, slots=True)
class TailQuery:
    """Fetch queries: is there any record between an offset of a partition and its end?

    The answer repeats `key`. Each partition has one query at a time.
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
    """What lies between an offset and the log end."""

    UNKNOWN = -1
    RECORDS = 0
    NOTHING = 1  # only transaction markers and records of aborted transactions


@dataclass(frozen=True, slots=True)
class TailAnswers:
    """Answers beside their queries; `content` holds values of TailContent."""

    key: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    content: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.key)
