"""What lagwatch's rules know of a row beside its window: columns that polls gather."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Facts:
    """One value a row; durations in ms, on a clock that nobody sets."""

    still_ms: Numbers  # since the committed offset last moved
    gap_ms: Numbers  # the longest recent gap between moves; 0 while none was seen
    unread_ms: Numbers  # the oldest unread message has waited at least this long
    messages_a_second: npt.NDArray[np.float64]  # that arrive on the partition
    remainder: Numbers  # so many offsets before an end are no messages: markers of transactions
    log_start: Numbers
    lost_ms: Numbers  # since messages were lost; -1 where none are
    had_members: Flags  # its group had members at some time
    has_members: Flags
    abandoned: Flags

    def take(self, rows: npt.NDArray[np.intp]) -> Facts:
        """These rows alone."""
        return Facts(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def nothing_known(cls, rows: int) -> Facts:
        """Rows of which only the window is known."""
        zero, no = np.zeros(rows, np.int64), np.zeros(rows, dtype=bool)
        return cls(zero, zero, zero, np.zeros(rows), zero, zero, zero - 1, no, no, no)
