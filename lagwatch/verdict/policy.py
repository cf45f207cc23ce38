"""The settings of each row: whose rules evaluate it, and with which limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntFlag

import numpy as np
import numpy.typing as npt

from lagwatch.verdict.status import Mode

DEFAULT_FLOOR_MS = 60_000


class Extension(IntFlag):
    """What lagwatch's rules add to Burrow's; `verdicts.disable` turns each off (docs/verdicts.md)."""

    PATIENCE = (
        1  # no STOP or STALL from one commit, before the floor, or within 1.5 times the longest gap between moves
    )
    MEMBERS_GONE = 2  # a group that lost all its members is STOP without waiting for the window
    TREND = 4  # WARN by a robust trend instead of "the lag never fell"
    EVERY_REWIND = 8  # every rewind counts, not only the first in the window
    MARKERS = 16  # transaction markers before the log end are no lag
    ABANDONED = 32  # topics that no member of an active group is assigned do not count for the group
    LOSS = 64  # an offset below the log start means lost messages


NO_EXTENSIONS = Extension(0)
ALL_EXTENSIONS = Extension(sum(Extension))


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of each row, as columns. Only lagwatch's rules use `floor_ms` and `extensions`."""

    allowed_lag: npt.NDArray[np.int64]  # a lag up to this counts as no lag
    minimum_complete: npt.NDArray[np.float32]  # a window filled to a lower share is not evaluated
    mode: npt.NDArray[np.uint8]
    floor_ms: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    extensions: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))

    @classmethod
    def of_burrow(cls, rows: int, allowed_lag: int = 0, minimum_complete: float = 0) -> Policy:
        """Burrow's rules with the same settings for all rows; the defaults are Burrow's."""
        return cls(
            np.full(rows, allowed_lag, np.int64),
            np.full(rows, minimum_complete, np.float32),
            np.full(rows, Mode.BURROW, np.uint8),
        )

    def take(self, rows: npt.NDArray[np.intp]) -> Policy:
        """Only these rows."""
        return Policy(
            self.allowed_lag[rows],
            self.minimum_complete[rows],
            self.mode[rows],
            self.floor_ms[rows],
            self.extensions[rows],
        )

    def as_burrow(self) -> Policy:
        """The same limits with Burrow's rules."""
        return replace(self, mode=np.full(len(self.mode), Mode.BURROW, np.uint8))

    def is_enabled(self, extension: Extension) -> npt.NDArray[np.bool_]:
        """The rows for which this extension is on."""
        return np.asarray((self.extensions & extension) != 0)
