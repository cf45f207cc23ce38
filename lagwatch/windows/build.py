"""Builds the columns of `Windows` from windows given one by one, of any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.windows.view import NO_END, UNKNOWN_LAG, Windows


@dataclass(frozen=True, slots=True)
class WindowRow:
    """The window of one partition. `slots` are the filled ones, with `offset`, `order`, `timestamp` and maybe `lag`; `width`
    counts the empty ones too."""

    width: int
    slots: Sequence[Mapping[str, Any]]
    ends: Sequence[int]
    current_lag: int


def windows_of(given: Sequence[WindowRow]) -> Windows:
    """The windows as columns, each aligned to the right of as many slots as the widest has."""
    rows, slots = len(given), max([window.width for window in given], default=0) or 1
    depth = max([len(window.ends) for window in given], default=0) or 1
    kept = np.array([len(window.slots) for window in given], np.int16)
    ends_kept = np.array([len(window.ends) for window in given], np.int16)

    def matrix(name: str) -> npt.NDArray[np.int64]:
        values = [slot.get(name) for window in given for slot in window.slots]
        known = [UNKNOWN_LAG if value is None else value for value in values]
        return _right_aligned(known, kept, slots, UNKNOWN_LAG)

    return Windows(
        offset=matrix("offset"),
        order=matrix("order"),
        timestamp=matrix("timestamp"),
        lag=matrix("lag"),
        width=np.array([window.width for window in given], np.int16),
        kept=kept,
        current_lag=np.array([window.current_lag for window in given], np.int64),
        ends=_right_aligned([end for window in given for end in window.ends], ends_kept, depth, NO_END),
        ends_kept=ends_kept,
        end_row=np.arange(rows, dtype=np.int32),
    )


def _right_aligned(values: Sequence[int], kept: npt.NDArray[np.int16], slots: int, empty: int) -> npt.NDArray[np.int64]:
    found = np.full((len(kept), slots), empty, np.int64)
    found[np.arange(slots) >= slots - kept[:, None]] = values
    return np.asfortranarray(found)  # rules read slot by slot
