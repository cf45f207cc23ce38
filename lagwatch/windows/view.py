"""`Windows`: the windows of many partitions as columns, the form in which the rules take them.

A matrix is rows x slots, oldest slot first, the newest always the last. In memory it lies slot by slot: a rule walks the
ten slots and works on all rows at once, which is several times as fast as walking along rows of ten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

UNKNOWN_LAG = -1  # lag is never below zero, so an int64 column can say "not known" without a second column
NO_END = np.iinfo(np.int64).max  # what an empty slot of the ends holds: larger than any offset


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of many partitions.

    Windows may differ in `width`: each stands at the right of the matrices, its empty slots in front of its filled ones.
    What `offset`, `order` and `timestamp` hold outside filled slots means nothing; `lag` is UNKNOWN_LAG there, and
    `ends` is NO_END.
    The ends of a partition are the same for every group that reads it: a row points at them by `end_row`, -1 for none.
    """

    offset: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]  # ms
    lag: npt.NDArray[np.int64]  # at the commit
    width: npt.NDArray[np.int16]  # slots, filled or not; 0 for a partition nobody ever committed
    kept: npt.NDArray[np.int16]  # filled slots
    current_lag: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]  # partitions x slots, newest last, empty ones in front
    ends_kept: npt.NDArray[np.int16]
    end_row: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def slots(self) -> int:
        """How many slots the widest window can have."""
        return int(self.offset.shape[1])

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """The slot of each row's oldest commit; meaningless in rows without one."""
        return np.minimum(self.slots - self.kept.astype(np.int64), max(self.slots - 1, 0))

    @property
    def filled(self) -> npt.NDArray[np.bool_]:
        """Which slots hold a commit."""
        return np.asarray(np.arange(self.slots) >= self.slots - self.kept[:, None])

    @property
    def lag_known(self) -> npt.NDArray[np.bool_]:
        """Which slots hold a commit whose lag is known."""
        return np.asarray(self.lag != UNKNOWN_LAG)

    def lowest_end(self) -> npt.NDArray[np.int64]:
        """The lowest kept end offset of each row's partition, NO_END where none is kept."""
        if not self.ends.size:
            return np.full(len(self), NO_END)
        lowest = np.minimum.reduce(self.ends.T)
        return np.where(self.end_row >= 0, lowest[self.end_row], NO_END)

    def take(self, rows: npt.NDArray[np.intp]) -> Windows:
        """These rows alone, as a copy; the ends stay shared."""
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
