"""Selects the points of a full row whose removal costs the least precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Ints

_NO_ERROR_KNOWN = 1e300  # next to a point with one bound only: dropped last


def points_to_drop(offset: Ints, after: Ints, before: Ints, lowest: Ints, target: int) -> Bools:
    """Marks the points to drop (slots x rows, each row ascending by offset, empty slots last).

    Points below what every group has read go first, except the last of them. Then, down to about `target`, those whose
    loss changes an interpolated time the least relative to the age of the record: a lag of a day may be a minute off.
    The start and end of a long idle period are one point, far from any line, so it stays. So do the first and the last
    point and the two around `lowest`, the offset of a group. No two neighbours are dropped at once: the error of each is
    computed from the other.
    """
    filled = offset < ALWAYS
    count = filled.sum(axis=0)
    right = np.vstack((offset[1:], np.full((1, offset.shape[1]), ALWAYS)))
    left = np.vstack((np.full((1, offset.shape[1]), NEVER), offset[:-1]))
    free = filled & (right <= lowest)
    around = ((offset <= lowest) & (right > lowest)) | ((offset > lowest) & (left <= lowest))
    position = np.arange(len(offset))[:, None]
    stays = around | (position == 0) | (position >= count - 1) | (position % 2 == 0)
    cost = _interpolation_error(offset, after, before)
    cost[stays | free | ~filled] = np.inf
    rank = np.argsort(np.argsort(cost, axis=0, kind="stable"), axis=0, kind="stable")
    too_many = count - free.sum(axis=0) - target
    chosen: Bools = free | ((rank < too_many) & (cost < np.inf))
    return chosen


def _interpolation_error(offset: Ints, after: Ints, before: Ints) -> npt.NDArray[np.float64]:
    """The distance of each point from the line between its neighbours, relative to its age."""
    after = np.maximum.accumulate(after, axis=0)
    before = np.minimum.accumulate(before[::-1], axis=0)[::-1]
    cost: npt.NDArray[np.float64] = np.full(offset.shape, _NO_ERROR_KNOWN)
    here, left, right = slice(1, -1), slice(None, -2), slice(2, None)
    bounded = (after[left] > NEVER) & (before[right] < ALWAYS) & (offset[right] < ALWAYS)
    with np.errstate(invalid="ignore", over="ignore"):
        wide = _floats(offset[right]) - _floats(offset[left])
        share = (_floats(offset[here]) - _floats(offset[left])) / np.maximum(wide, 1)
        line = _floats(after[left]) + share * (_floats(before[right]) - _floats(after[left]))
        off = np.maximum(np.abs(line - _floats(before[here])), np.abs(line - _floats(after[here])))
        newest = _floats(np.where(after > NEVER, after, 0).max(axis=0))
        age = np.maximum(newest - _floats(after[here]), 0) + 1
    cost[here] = np.where(bounded, off / age, _NO_ERROR_KNOWN)
    return cost


def _floats(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return numbers.astype(np.float64)
