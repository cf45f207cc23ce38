"""Brackets turned into ages: the seconds and bounds that are written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Bracket, Ints

NOTHING_UNREAD, SEEN, PROBED = 0, 1, 2  # lag_source of the catalogue


@dataclass(frozen=True, slots=True)
class TimeLag:
    """One row for each question.

    `seconds` and `high` are good where `known`, `low` where `low_known`: an agent that just came knows that what it found
    is at least as old as its first look, and no more. `skewed` rows are judged by ends seen alone, because the records'
    own times contradict them. `after_ms` to `before_ms` is when the oldest unread record was written, `guess_ms` the best
    guess between; they mean nothing where `source` is NOTHING_UNREAD.
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
        """Some rows."""
        return TimeLag(*(getattr(self, name)[at] for name in self.__slots__))


def lag_from(bracket: Bracket, end: Ints, now_ms: int, *, found: Bools, widen_ms: Ints, skewed: Bools) -> TimeLag:
    """Ages at `now_ms`. `widen_ms` is how far records' own times may stray from when the partition was seen to grow."""
    unread = bracket.wanted < end
    bounded = bracket.after > NEVER
    before = np.minimum(bracket.before, now_ms)  # what is unread is written already, whatever is known besides
    after = np.minimum(bracket.after, now_ms)
    # Bounds may cross a little where one comes from a record's own time: then the truth is as likely on either side.
    after, before = np.minimum(after, before), np.maximum(after, before)
    guess = _between(bracket, after, before, end)
    known = found & (bounded | ~unread)
    late = np.where(unread, np.maximum(now_ms - before - widen_ms, 0), 0)
    early = np.where(unread & bounded, np.maximum(now_ms - after, 0) + widen_ms, 0)
    source = np.where(bracket.after_from_broker | bracket.before_from_broker, PROBED, SEEN)
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
    """When the record was written if the records between the two points were written evenly: each in its share's middle."""
    last = np.maximum(np.where(bracket.before < ALWAYS, bracket.before_offset, end), bracket.wanted + 1)
    share = (bracket.wanted - bracket.after_offset + 0.5) / np.maximum(last - bracket.after_offset, 1)
    span = (before - after).astype(np.float64)
    return np.where(bracket.after > NEVER, after + (span * np.clip(share, 0, 1)).astype(np.int64), before)
