"""Stores points beyond the few newest for partitions with lagging groups, within one memory budget."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lagwatch.columns import find
from lagwatch.time_lag.bracket import ALWAYS, NEVER, Ints, Points
from lagwatch.time_lag.point_eviction import points_to_drop
from lagwatch.windows.keyed_rows import KeyedRows, RowColumn

MOST_SLOTS, LEAST_SLOTS = 64, 8
_POINT_BYTES = 25
_ROW_BYTES = 24  # key, row number, count, lowest
POINT = ("offset", "after", "before", "from_broker")


class OlderPoints:
    """Rows of points by key. More rows mean fewer points per row."""

    def __init__(self, budget_bytes: int, slots: int = MOST_SLOTS) -> None:
        self._budget_bytes = budget_bytes
        self.slots = slots
        self.table = _table(slots)

    def follow(self, keys: Ints, lowest: Ints) -> None:
        """Store points for exactly these partitions, or the first ones if the budget is too small. Each key once.

        `lowest` is the lowest committed offset of a group: points below it are dropped first.
        """
        room = self._budget_bytes // (_ROW_BYTES + LEAST_SLOTS * _POINT_BYTES)
        keys, lowest = keys[:room], lowest[:room]
        _, wanted = find(np.sort(keys), self.table.keys)
        self.table.remove(self.table.rows[~wanted])
        self._fit(len(keys))
        _, found = self.table.find(keys)
        self.table.add(keys[~found])
        row, _ = self.table.find(keys)
        self.table["lowest"][row] = lowest

    def push(self, keys: Ints, points: Points) -> None:
        """Add points of followed partitions; each key once."""
        row, found = self.table.find(keys)
        found &= points.offset < ALWAYS
        row, points = row[found], points.take(found)
        self._thin(row[self.table["count"][row] >= self.slots], self.slots - self.slots // 4)
        slot = self.table["count"][row]
        for name in POINT:
            self.table[name][slot, row] = getattr(points, name)
        self.table["count"][row] = slot + 1

    def points_of(self, row: npt.NDArray[np.int32]) -> Iterator[Points]:
        """The points of these rows, slot by slot."""
        columns = [self.table[name] for name in POINT]
        for slot in range(int(self.table["count"][row].max(initial=0))):
            yield Points(*(column[slot, row] for column in columns))

    def drop_above(self, keys: Ints, end: Ints) -> None:
        """Remove points above the end of a truncated log; each key once."""
        row, found = self.table.find(keys)
        row, end = row[found], end[found]
        self._squeeze(row, self.table["offset"][:, row] > end)

    def drop_broker_points(self, keys: Ints) -> None:
        """Remove the points from timestamp queries."""
        row, found = self.table.find(keys)
        self._squeeze(row[found], self.table["from_broker"][:, row[found]])

    def drop(self, keys: Ints) -> None:
        """Remove these partitions."""
        row, found = self.table.find(keys)
        self.table.remove(row[found])

    def shift(self, by_ms: int) -> None:
        """Apply a step of the clock to the observation times."""
        seen = ~self.table["from_broker"]
        for name, nothing in (("after", NEVER), ("before", ALWAYS)):
            column = self.table[name]
            column[seen & (column != nothing)] += by_ms

    def restore_slots(self, slots: int) -> None:
        """Set the slots of a packed history; only while there are no rows."""
        self.slots, self.table = slots, _table(slots)

    def _thin(self, row: npt.NDArray[np.int32], target: int) -> None:
        if not len(row):
            return
        order = np.argsort(self.table["offset"][:, row], axis=0, kind="stable")
        offset, after, before = (
            np.take_along_axis(self.table[name][:, row], order, axis=0) for name in ("offset", "after", "before")
        )
        chosen = points_to_drop(offset, after, before, self.table["lowest"][row], target)
        in_place = np.empty_like(chosen)
        np.put_along_axis(in_place, order, chosen, axis=0)
        self._squeeze(row, in_place)

    def _squeeze(self, row: npt.NDArray[np.int32], gone: npt.NDArray[np.bool_]) -> None:
        """Drop marked points (slots x rows) and close the gaps; the order of arrival stays."""
        if not len(row):
            return
        gone = gone | (self.table["offset"][:, row] == ALWAYS)
        order = np.argsort(gone, axis=0, kind="stable")
        empty = np.take_along_axis(gone, order, axis=0)
        for name, kind in _columns(self.slots).items():
            if kind.slots is not None:
                column = np.take_along_axis(self.table[name][:, row], order, axis=0)
                column[empty] = kind.empty
                self.table[name][:, row] = column
        self.table["count"][row] = (~gone).sum(axis=0)

    def _fit(self, rows: int) -> None:
        """Halve the slots while the rows exceed the budget; double them once twice the needed memory is free."""
        slots = self.slots
        while slots > LEAST_SLOTS and rows * _row_bytes(slots) > self._budget_bytes:
            slots //= 2
        while slots < MOST_SLOTS and 2 * rows * _row_bytes(2 * slots) <= self._budget_bytes:
            slots *= 2
        while self.slots > slots:
            self._thin_to_half()
        if self.slots < slots:
            self._rebuild(slots)

    def _thin_to_half(self) -> None:
        half = self.slots // 2
        while len(full := np.flatnonzero(self.table["count"] > half).astype(np.int32)):
            self._thin(full, half)
        self._rebuild(half)

    def _rebuild(self, slots: int) -> None:
        old, kept = self.table, min(slots, self.slots)
        self.slots, self.table = slots, _table(slots)
        self.table.add(old.keys)
        row, _ = self.table.find(old.keys)
        for name, kind in _columns(slots).items():
            if kind.slots is None:
                self.table[name][row] = old[name][old.rows]
            else:
                self.table[name][:kept, row] = old[name][:kept, old.rows]


def _row_bytes(slots: int) -> int:
    return _ROW_BYTES + slots * _POINT_BYTES


def _columns(slots: int) -> dict[str, RowColumn]:
    return {
        "offset": RowColumn(slots, np.int64, ALWAYS),
        "after": RowColumn(slots, np.int64, NEVER),
        "before": RowColumn(slots, np.int64, ALWAYS),
        "from_broker": RowColumn(slots, np.bool_),
        "count": RowColumn(None, np.int16),
        "lowest": RowColumn(None, np.int64),
    }


def _table(slots: int) -> KeyedRows:
    return KeyedRows(_columns(slots))
