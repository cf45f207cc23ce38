"""The columns that feed the windows, and the names of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Texts


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """End offsets from the brokers, in order of arrival."""

    topic: Texts
    partition: npt.NDArray[np.int32]
    partition_count: npt.NDArray[np.int64]  # of the topic
    end: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """Partitions assigned to a member of a group."""

    group: Texts
    topic: Texts
    partition: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Commits:
    """Commits in order of arrival. The later of two commits to a partition has the higher `order`."""

    group: Texts
    topic: Texts
    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]  # ms


@dataclass(frozen=True, slots=True)
class RowNames:
    """Names of rows, sorted by group number, topic number and partition; `row` is the row's index in `Windows`."""

    group: npt.NDArray[np.int64]
    topic: npt.NDArray[np.int64]
    partition: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
