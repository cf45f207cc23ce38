"""Which points of a full row can go with the least harm."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Ints

_UNJUDGED = 1e300  # beside a point that bounds on one side only: goes last


def spare(offset: Ints, after: Ints, before: Ints, lowest: Ints, target: int) -> Bools:
    """Marks points (slots x rows, each row ascending by offset, places without a point last) that are to be dropped.

    First go those below what every group has read, but the last of them. Then, down to about `target`, those whose loss
    moves an interpolated time the least, measured against the age of the record: a lag of a day may be a minute off.
    The two ends of a long silence are one point, far off any line, so they stay. So do the first and the last point and
    the two around `lowest`, where a group stands. No two neighbours go at once: each is judged by the other.
    """
    filled = offset < ALWAYS
    count = filled.sum(axis=0)
    right = np.vstack((offset[1:], np.full((1, offset.shape[1]), ALWAYS)))
    left = np.vstack((np.full((1, offset.shape[1]), NEVER), offset[:-1]))
    free = filled & (right <= lowest)
    around = ((offset <= lowest) & (right > lowest)) | ((offset > lowest) & (left <= lowest))
    position = np.arange(len(offset))[:, None]
    stays = around | (position == 0) | (position >= count - 1) | (position % 2 == 0)
    cost = _harm(offset, after, before)
    cost[stays | free | ~filled] = np.inf
    rank = np.argsort(np.argsort(cost, axis=0, kind="stable"), axis=0, kind="stable")
    too_many = count - free.sum(axis=0) - target
    chosen: Bools = free | ((rank < too_many) & (cost < np.inf))
    return chosen


def _harm(offset: Ints, after: Ints, before: Ints) -> npt.NDArray[np.float64]:
    """How far off the line between its neighbours each point is, as a share of its age."""
    after = np.maximum.accumulate(after, axis=0)
    before = np.minimum.accumulate(before[::-1], axis=0)[::-1]
    cost: npt.NDArray[np.float64] = np.full(offset.shape, _UNJUDGED)
    if len(offset) < 3:
        return cost
    here, left, right = slice(1, -1), slice(None, -2), slice(2, None)
    bounded = (after[left] > NEVER) & (before[right] < ALWAYS) & (offset[right] < ALWAYS)
    with np.errstate(invalid="ignore", over="ignore"):
        wide = _floats(offset[right]) - _floats(offset[left])
        share = (_floats(offset[here]) - _floats(offset[left])) / np.maximum(wide, 1)
        line = _floats(after[left]) + share * (_floats(before[right]) - _floats(after[left]))
        off = np.maximum(np.abs(line - _floats(before[here])), np.abs(line - _floats(after[here])))
        newest = _floats(np.where(after > NEVER, after, 0).max(axis=0))
        age = np.maximum(newest - _floats(after[here]), 0) + 1
    cost[here] = np.where(bounded, off / age, _UNJUDGED)
    return cost


def _floats(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return numbers.astype(np.float64)
