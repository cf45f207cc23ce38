"""Turns brackets into ages: the estimate and the bounds that the tables record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Bracket, Ints

NOTHING_UNREAD, OBSERVED, QUERIED = 0, 1, 2  # lag_source of the catalogue


@dataclass(frozen=True, slots=True)
class TimeLag:
    """Time lags, one row per committed offset.

    `seconds` and `high` are valid where `known`, `low` where `low_known`: an agent that just started knows only that the
    unread records are at least as old as its first poll. `skewed` rows use observed end offsets only, because the
    records' timestamps contradict them. The oldest unread record was written between `after_ms` and `before_ms`, with
    `guess_ms` as the best estimate; the three are undefined where `source` is NOTHING_UNREAD.
    """

    seconds: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    source: npt.NDArray[np.uint8]
    known: Bools
    low_known: Bools
    skewed: Bools
    after_ms: Ints
    before_ms: Ints
    guess_ms: Ints

    def take(self, at: npt.NDArray[Any]) -> TimeLag:
        """The rows at these positions."""
        return TimeLag(*(getattr(self, name)[at] for name in self.__slots__))


def lag_from(bracket: Bracket, end: Ints, now_ms: int, *, found: Bools, widen_ms: Ints, skewed: Bools) -> TimeLag:
    """Ages at `now_ms`. `widen_ms` is how far record timestamps may be from the time the partition was observed to grow."""
    unread = bracket.wanted < end
    bounded = bracket.after > NEVER
    before = np.minimum(bracket.before, now_ms)  # an unread record exists, so it was written by now
    after = np.minimum(bracket.after, now_ms)
    # Bounds may cross slightly where one comes from a record timestamp: the truth is then equally likely on either side.
    after, before = np.minimum(after, before), np.maximum(after, before)
    guess = _between(bracket, after, before, end)
    known = found & (bounded | ~unread)
    late = np.where(unread, np.maximum(now_ms - before - widen_ms, 0), 0)
    early = np.where(unread & bounded, np.maximum(now_ms - after, 0) + widen_ms, 0)
    source = np.where(bracket.after_from_broker | bracket.before_from_broker, QUERIED, OBSERVED)
    return TimeLag(
        seconds=np.where(unread & known, np.maximum(now_ms - guess, 0), 0) / 1000,
        low=late / 1000,
        high=early / 1000,
        source=np.where(unread, source, NOTHING_UNREAD).astype(np.uint8),
        known=known,
        low_known=found.copy(),
        skewed=skewed,
        after_ms=np.where(bounded, after, NEVER),
        before_ms=before,
        guess_ms=guess,
    )


def _between(bracket: Bracket, after: Ints, before: Ints, end: Ints) -> Ints:
    """The interpolated write time: records between the two points are assumed evenly spaced, half a step from the points."""
    last = np.maximum(np.where(bracket.before < ALWAYS, bracket.before_offset, end), bracket.wanted + 1)
    share = (bracket.wanted - bracket.after_offset + 0.5) / np.maximum(last - bracket.after_offset, 1)
    span = (before - after).astype(np.float64)
    return np.where(bracket.after > NEVER, after + (span * np.clip(share, 0, 1)).astype(np.int64), before)
