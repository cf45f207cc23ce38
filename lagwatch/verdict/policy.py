"""What is asked of each row: by whose rules it is judged, and with which numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntFlag

import numpy as np
import numpy.typing as npt

from lagwatch.verdict.status import Mode

DEFAULT_FLOOR_MS = 60_000


class Extension(IntFlag):
    """What lagwatch's rules add to Burrow's; each can be switched off (docs/verdicts.md)."""

    PATIENCE = (
        1  # no STOP or STALL from one commit, before the floor, or within 1.5 times its longest gap between moves
    )
    MEMBERS_GONE = 2  # a group whose members are all gone is STOP without waiting for the window
    TREND = 4  # WARN by a robust trend instead of "never fell once"
    EVERY_REWIND = 8  # every rewind counts, not only the first in the window
    REMAINDER = 16  # a constant remainder left by transaction markers is no lag
    ABANDONED = 32  # topics that no member of a live group is assigned do not judge it
    LOSS = 64  # an offset below the log start means that messages are lost


ALL_EXTENSIONS = Extension(127)


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of each row, as columns. `floor_ms` and `extensions` matter to lagwatch's rules alone."""

    allowed_lag: npt.NDArray[np.int64]  # as much is as good as none
    minimum_complete: npt.NDArray[np.float32]  # a window filled to a lower share is not judged
    mode: npt.NDArray[np.uint8]
    floor_ms: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    extensions: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))

    @classmethod
    def of_burrow(cls, rows: int, allowed_lag: int = 0, minimum_complete: float = 0) -> Policy:
        """Burrow's rules with one setting for all rows; the defaults are Burrow's."""
        return cls(
            np.full(rows, allowed_lag, np.int64),
            np.full(rows, minimum_complete, np.float32),
            np.full(rows, Mode.BURROW, np.uint8),
        )

    @classmethod
    def of_lagwatch(
        cls, rows: int, allowed_lag: int = 0, floor_ms: int = DEFAULT_FLOOR_MS, extensions: Extension = ALL_EXTENSIONS
    ) -> Policy:
        """lagwatch's rules with one setting for all rows."""
        return cls(
            np.full(rows, allowed_lag, np.int64),
            np.zeros(rows, np.float32),
            np.full(rows, Mode.LAGWATCH, np.uint8),
            np.full(rows, floor_ms, np.int64),
            np.full(rows, extensions, np.uint8),
        )

    def take(self, rows: npt.NDArray[np.intp]) -> Policy:
        """These rows alone."""
        return Policy(
            self.allowed_lag[rows],
            self.minimum_complete[rows],
            self.mode[rows],
            self.floor_ms[rows],
            self.extensions[rows],
        )

    def as_burrow(self) -> Policy:
        """The same numbers, judged by Burrow's rules."""
        return replace(self, mode=np.full(len(self.mode), Mode.BURROW, np.uint8))

    def is_enabled(self, what: Extension) -> npt.NDArray[np.bool_]:
        """The rows for which this addition is on."""
        return np.asarray((self.extensions & what) != 0)
