"""The tightest bounds that points give for when records were written, for many offsets at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER = -(1 << 62)  # `after` of a point that does not bound from below
ALWAYS = 1 << 62  # `before` of one that does not bound from above, and the offset of a place without a point


@dataclass(frozen=True, slots=True)
class Points:
    """Points, one for each row of something."""

    offset: Ints
    after: Ints
    before: Ints
    from_broker: Bools

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, at: npt.NDArray[Any]) -> Points:
        """Some of them."""
        return Points(self.offset[at], self.after[at], self.before[at], self.from_broker[at])

    def only_seen(self) -> Points:
        """Without what brokers were asked: those points bound nothing."""
        return Points(
            np.where(self.from_broker, ALWAYS, self.offset),
            np.where(self.from_broker, NEVER, self.after),
            np.where(self.from_broker, ALWAYS, self.before),
            self.from_broker,
        )


@dataclass(slots=True)
class Bracket:
    """For the record at each wanted offset: written at or after `after`, at or before `before`, and which points say so."""

    wanted: Ints
    after: Ints
    after_offset: Ints
    after_from_broker: Bools
    before: Ints
    before_offset: Ints
    before_from_broker: Bools

    @classmethod
    def of(cls, wanted: Ints) -> Bracket:
        """Nothing known yet."""
        count = len(wanted)
        return cls(
            wanted,
            np.full(count, NEVER),
            np.full(count, NEVER),
            np.zeros(count, dtype=bool),
            np.full(count, ALWAYS),
            np.full(count, ALWAYS),
            np.zeros(count, dtype=bool),
        )

    def narrow(self, slots: Iterable[Points]) -> None:
        """Take in points, each slot holding one for each wanted offset. Of two that say the same the nearer one counts."""
        for points in slots:
            at_or_below = points.offset <= self.wanted
            better = at_or_below & (
                (points.after > self.after) | ((points.after == self.after) & (points.offset > self.after_offset))
            )
            np.copyto(self.after, points.after, where=better)
            np.copyto(self.after_offset, points.offset, where=better)
            np.copyto(self.after_from_broker, points.from_broker, where=better)
            better = ~at_or_below & (
                (points.before < self.before) | ((points.before == self.before) & (points.offset < self.before_offset))
            )
            np.copyto(self.before, points.before, where=better)
            np.copyto(self.before_offset, points.offset, where=better)
            np.copyto(self.before_from_broker, points.from_broker, where=better)

    def take(self, at: npt.NDArray[Any]) -> Bracket:
        """Some of them, as copies."""
        return Bracket(*(getattr(self, name)[at] for name in self.__slots__))

    def put(self, at: npt.NDArray[Any], part: Bracket) -> None:
        """Write back what `take` gave."""
        for name in self.__slots__[1:]:  # what is wanted is the caller's
            getattr(self, name)[at] = getattr(part, name)
