"""What lagwatch's rules use of a row besides its window: columns gathered from polls."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Facts:
    """One value a row; durations in ms of a clock that is never set."""

    since_moved_ms: Numbers  # since the committed offset last moved
    gap_ms: Numbers  # the longest recent gap between moves; 0 before two moves were observed
    unread_ms: Numbers  # lower bound of the age of the oldest unread message
    messages_a_second: npt.NDArray[np.float64]  # produced to the partition
    markers: Numbers  # offsets before the log end that are transaction markers, not messages
    log_start: Numbers
    lost_ms: Numbers  # since messages were lost; -1 where none are
    had_members: Flags  # its group had members at some time
    has_members: Flags
    abandoned: Flags

    def take(self, rows: npt.NDArray[np.intp]) -> Facts:
        """Only these rows."""
        return Facts(*(getattr(self, field.name)[rows] for field in fields(self)))
