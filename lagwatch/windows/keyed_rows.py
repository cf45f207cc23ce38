"""A dense columnar table with rows found by key, the storage of windows, end offsets and time points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.columns import find

_GROWTH_PARTS = 128  # a table grows by 1/128: doubling could double the bytes per row
_MIN_SPARE_ROWS = 16


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column: slots per row (None for one value), type, and the value in a new row."""

    slots: int | None
    dtype: type[np.generic]
    empty: int = 0


class KeyedRows:
    """Rows 0 to n-1 without gaps, each with one key.

    A column with slots is a slots x rows matrix, so that one slot of all rows is contiguous. Removing rows moves the last
    ones into the gaps: a row number is valid only until the next `remove`.
    """

    def __init__(self, columns: Mapping[str, RowColumn]) -> None:
        self.kinds = dict(columns)
        self._columns = {name: _allocated(kind, 0) for name, kind in columns.items()}
        self.keys: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # ascending
        self.rows: npt.NDArray[np.int32] = np.zeros(0, np.int32)  # the row of each key
        self.changes = 0  # version of the set of rows: row numbers found under another one may be wrong

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column as a view: writing to it writes to the table."""
        return self._columns[name][..., : len(self.keys)]

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self.keys.nbytes + self.rows.nbytes + sum(column.nbytes for column in self._columns.values())

    def find(self, keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """The row of each key, and whether it has one; without one the row is meaningless."""
        at, found = find(self.keys, keys)
        return (self.rows[at] if len(self.rows) else np.zeros(len(keys), np.int32)), found

    def add(self, keys: npt.NDArray[np.int64]) -> None:
        """Add empty rows for keys that have none; each key once."""
        if not len(keys):
            return
        count = len(self.keys)
        if count + len(keys) > self._capacity:
            self._resize((count + len(keys)) * (_GROWTH_PARTS + 1) // _GROWTH_PARTS + _MIN_SPARE_ROWS)
        for name, kind in self.kinds.items():  # spare rows may still hold values of removed ones
            self._columns[name][..., count : count + len(keys)] = kind.empty
        order = np.argsort(keys)
        at = np.searchsorted(self.keys, keys[order])
        self.keys = np.insert(self.keys, at, keys[order])
        self.rows = np.insert(self.rows, at, (count + order).astype(np.int32))
        self.changes += 1

    def remove(self, rows: npt.NDArray[np.int32]) -> None:
        """Remove rows; column data moves only for the removed ones."""
        if not len(rows):
            return
        is_gone = np.zeros(len(self.keys), dtype=bool)
        is_gone[rows] = True
        left = len(self.keys) - int(is_gone.sum())
        gaps = np.flatnonzero(is_gone[:left])
        movers = left + np.flatnonzero(~is_gone[left:])
        for column in self._columns.values():
            column[..., gaps] = column[..., movers]
        row_now = np.arange(len(self.keys), dtype=np.int32)
        row_now[movers] = gaps
        stays = ~is_gone[self.rows]
        self.keys, self.rows = self.keys[stays], row_now[self.rows[stays]]
        self.changes += 1
        if self._capacity > 2 * left + _MIN_SPARE_ROWS:
            self._resize(left + _MIN_SPARE_ROWS)

    def resize_slots(self, slots: int) -> None:
        """Give every column with slots another number of them; the newest, which are last, stay."""
        for name, kind in self.kinds.items():
            if kind.slots is None:
                continue
            before, self.kinds[name] = self._columns[name], replace(kind, slots=slots)
            self._columns[name] = _allocated(self.kinds[name], before.shape[-1])
            self._columns[name][:] = kind.empty
            kept = min(slots, len(before))
            self._columns[name][slots - kept :] = before[len(before) - kept :]
        self.changes += 1

    @property
    def _capacity(self) -> int:
        return int(next(iter(self._columns.values())).shape[-1])

    def _resize(self, capacity: int) -> None:
        kept = len(self.keys)
        for name, kind in self.kinds.items():  # one by one: only one column is in memory twice at a time
            grown = _allocated(kind, capacity)
            grown[..., :kept] = self._columns[name][..., :kept]
            self._columns[name] = grown


def _allocated(kind: RowColumn, rows: int) -> npt.NDArray[Any]:
    return np.empty(rows if kind.slots is None else (kind.slots, rows), kind.dtype)
