"""Computes the tightest bounds that points give for the write times of records, for many offsets at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER = -(1 << 62)  # `after` of a point without a lower bound
ALWAYS = 1 << 62  # `before` of a point without an upper bound, and the offset of an empty slot


@dataclass(frozen=True, slots=True)
class Points:
    """Points as columns, one per row."""

    offset: Ints
    after: Ints
    before: Ints
    from_broker: Bools

    def take(self, at: npt.NDArray[Any]) -> Points:
        """The points at these positions."""
        return Points(self.offset[at], self.after[at], self.before[at], self.from_broker[at])

    def only_observed(self) -> Points:
        """The same with empty points in place of those from timestamp queries."""
        return Points(
            np.where(self.from_broker, ALWAYS, self.offset),
            np.where(self.from_broker, NEVER, self.after),
            np.where(self.from_broker, ALWAYS, self.before),
            self.from_broker,
        )


@dataclass(slots=True)
class Bracket:
    """Bounds for the record at each wanted offset, written from `after` to `before`, and the points they come from."""

    wanted: Ints
    after: Ints
    after_offset: Ints
    after_from_broker: Bools
    before: Ints
    before_offset: Ints
    before_from_broker: Bools

    @classmethod
    def of(cls, wanted: Ints) -> Bracket:
        """Unbounded brackets."""
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
        """Apply points; each slot has one point per wanted offset. Of two equal bounds the nearer point wins."""
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
        """Copies of the brackets at these positions."""
        return Bracket(*(getattr(self, name)[at] for name in self.__slots__))

    def put(self, at: npt.NDArray[Any], part: Bracket) -> None:
        """Write back brackets obtained from `take`."""
        for name in self.__slots__[1:]:  # `wanted` belongs to the caller
            getattr(self, name)[at] = getattr(part, name)
