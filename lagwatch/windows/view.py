"""`Windows`: the windows of many partitions as columns, the input of the verdict rules.

A matrix is rows x slots, the newest slot last. In memory it is stored slot by slot: a rule iterates over the ten slots
and handles all rows at once, which is several times faster than iterating over rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

UNKNOWN_LAG = -1  # lag is never negative, so an int64 column needs no second column for "unknown"
NO_END = np.iinfo(np.int64).max  # the value of an empty slot of end offsets: above any offset


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of many partitions.

    Windows may differ in `width`: each is right-aligned in the matrices, its empty slots before its filled ones.
    In empty slots `offset`, `order` and `timestamp` are undefined, `lag` is UNKNOWN_LAG and `ends` is NO_END.
    All groups that read a partition share its end offsets: `end_row` is their row in `ends`, -1 for none.
    """

    offset: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]  # ms
    lag: npt.NDArray[np.int64]  # at the commit
    width: npt.NDArray[np.int16]  # slots, filled or not; 0 for a partition that was never committed
    kept: npt.NDArray[np.int16]  # filled slots
    current_lag: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]  # partitions x slots, newest last, empty ones in front
    ends_kept: npt.NDArray[np.int16]
    end_row: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def slots(self) -> int:
        """The number of slots of the matrices, the largest possible width."""
        return int(self.offset.shape[1])

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """The slot of each row's oldest commit; undefined in rows without commits."""
        return np.minimum(self.slots - self.kept.astype(np.int64), max(self.slots - 1, 0))

    def lowest_end(self) -> npt.NDArray[np.int64]:
        """The lowest stored end offset of each row's partition, NO_END without one."""
        if not self.ends.size:
            return np.full(len(self), NO_END)
        lowest = np.minimum.reduce(self.ends.T)
        return np.where(self.end_row >= 0, lowest[self.end_row], NO_END)

    def take(self, rows: npt.NDArray[np.intp]) -> Windows:
        """A copy of these rows; the end offsets stay shared."""
        return replace(
            self,
            offset=_rows_of(self.offset, rows),
            order=_rows_of(self.order, rows),
            timestamp=_rows_of(self.timestamp, rows),
            lag=_rows_of(self.lag, rows),
            width=self.width[rows],
            kept=self.kept[rows],
            current_lag=self.current_lag[rows],
            end_row=self.end_row[rows],
        )


def _rows_of(matrix: npt.NDArray[np.int64], rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    return np.take(matrix.T, rows, axis=1).T
