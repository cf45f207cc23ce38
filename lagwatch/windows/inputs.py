"""What arrives at the windows, as columns, and how their rows are named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Texts


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """End offsets as the brokers gave them, in the order they came."""

    topic: Texts
    partition: npt.NDArray[np.int32]
    partition_count: npt.NDArray[np.int64]  # of the topic
    end: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Owned:
    """Partitions that are assigned to a member of a group."""

    group: Texts
    topic: Texts
    partition: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Commits:
    """Commits in the order they came. `order` tells which of two commits of a partition was made later."""

    group: Texts
    topic: Texts
    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]  # ms


@dataclass(frozen=True, slots=True)
class RowNames:
    """What the rows are about, by group number, then topic number, then partition; `row` is their place in `Windows`."""

    group: npt.NDArray[np.int64]
    topic: npt.NDArray[np.int64]
    partition: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
