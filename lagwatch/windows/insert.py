"""Inserts commits into their windows by Burrow's storage rules, for many windows at once.

A window has its newest commit in the last slot and its empty slots in front. Orders strictly increase from slot to slot.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.windows.keyed_rows import KeyedRows, RowColumn
from lagwatch.windows.view import UNKNOWN_LAG

NO_RULE = 255  # `rule` of a row that has not been evaluated
NO_SLOTS = -1  # `kept` of a row that exists only because the group committed another partition of the topic
TO_MEASURE = -2  # the lag of a commit that a later poll measures: until then a slot it merges into keeps its lag
SLOT_COLUMNS = ("offset", "order", "timestamp", "lag")
# What polls record about a row beside its commits, in whole seconds and few bytes (see evaluation/notes.py).
_NOTES = {
    "moved": RowColumn(None, np.uint32),
    "gap": RowColumn(None, np.uint16),
    "lost": RowColumn(None, np.uint32),
    "learned_markers": RowColumn(None, np.uint8),
    "proved": RowColumn(None, np.uint8),
    "abandoned": RowColumn(None, np.bool_),
    "rule": RowColumn(None, np.uint8, NO_RULE),
}


@dataclass(frozen=True, slots=True)
class PendingCommits:
    """Commits to insert, at most one per row. `lag` is relative to the last end offset when they arrived."""

    row: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]
    lag: npt.NDArray[np.int64]
    min_distance_ms: npt.NDArray[np.int64]
    clock_may_step: npt.NDArray[np.bool_]  # whether a time far before that of the newest slot opens a slot

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> PendingCommits:
        """The chosen commits."""
        return PendingCommits(*(getattr(self, field.name)[chosen] for field in fields(self)))


def empty_slots(slots: int) -> KeyedRows:
    """A table of windows without rows."""
    columns = {name: RowColumn(slots, np.int64) for name in SLOT_COLUMNS}
    columns["lag"] = RowColumn(slots, np.int64, UNKNOWN_LAG)
    return KeyedRows({**columns, "kept": RowColumn(None, np.int16, NO_SLOTS), **_NOTES})


def insert_commits(table: KeyedRows, commits: PendingCommits) -> npt.NDArray[np.bool_]:
    """Insert each commit by its order. Returns which of them became the newest of their window.

    A commit is nearly always the newest; older ones ("backfill") arrive when the offsets topic is read from two positions.
    """
    rows = commits.row
    kept = np.maximum(table["kept"][rows], 0)
    table["kept"][rows] = kept
    is_newest = (kept == 0) | (table["order"][-1, rows] < commits.order)
    _append(table, commits.where(is_newest), kept[is_newest])
    if not is_newest.all():
        _backfill(table, commits.where(~is_newest), kept[~is_newest])
    return np.asarray(is_newest)


def _append(table: KeyedRows, commits: PendingCommits, kept: npt.NDArray[np.int16]) -> None:
    # Strictly less: min-distance 0 opens a slot for every commit, except one with a timestamp before the newest, whose
    # distance is negative. In Burrow all of those merge, until a clock that was set back has caught up.
    since = commits.timestamp - table["timestamp"][-1, commits.row]
    stepped_back = commits.clock_may_step & (since <= -commits.min_distance_ms)
    merges = (kept > 0) & (since < commits.min_distance_ms) & ~stepped_back
    last = len(table["order"]) - 1
    merged, opens = commits.where(merges), commits.where(~merges)
    lag_before = table["lag"][-1, merged.row]
    _overwrite(table, merged, np.full(int(merges.sum()), last))
    to_measure = merged.lag == TO_MEASURE
    table["lag"][-1, merged.row[to_measure]] = lag_before[to_measure]
    for name in SLOT_COLUMNS:
        column = table[name]
        column[:-1, opens.row] = column[1:, opens.row]
        column[-1, opens.row] = getattr(opens, name)
    table["lag"][-1, opens.row[opens.lag == TO_MEASURE]] = UNKNOWN_LAG
    table["kept"][opens.row] = np.minimum(kept[~merges] + 1, last + 1)


def _backfill(table: KeyedRows, commits: PendingCommits, kept: npt.NDArray[np.int16]) -> None:
    """Insert commits older than the newest of their window. Their lag is unknown: so is the end offset at their time."""
    slots = len(table["order"])
    commits = _without_lag(commits)
    order = table["order"][:, commits.row]
    filled = np.arange(slots)[:, None] >= slots - kept
    older = (filled & (order < commits.order)).sum(axis=0)  # how many commits of the window are older than this one
    is_repeat = (filled & (order == commits.order)).any(axis=0)
    full = kept == slots

    is_oldest = (older == 0) & ~full & ~is_repeat
    front = commits.where(is_oldest)
    _write(table, front, slots - 1 - kept[is_oldest].astype(np.intp))
    table["kept"][front.row] = kept[is_oldest] + 1

    # Just newer than the oldest of a full window: Burrow replaces the oldest and moves nothing.
    replaces = (older == 1) & full & ~is_repeat
    _write(table, commits.where(replaces), np.zeros(int(replaces.sum()), np.intp))

    # Between two others: merged into the older neighbour if they are close, else everything older moves one slot to the
    # front; a full window drops its oldest.
    between = (older > 0) & ~replaces & ~is_repeat
    inner, at = commits.where(between), (slots - kept + older - 1)[between].astype(np.intp)
    close = inner.timestamp - table["timestamp"][at, inner.row] < inner.min_distance_ms
    _overwrite(table, inner.where(close), at[close])
    _insert(table, inner.where(~close), at[~close])
    table["kept"][inner.row[~close]] = np.minimum(kept[between][~close] + 1, slots)


def _without_lag(commits: PendingCommits) -> PendingCommits:
    return replace(commits, lag=np.full(len(commits.row), UNKNOWN_LAG))


def _write(table: KeyedRows, commits: PendingCommits, slot: npt.NDArray[Any]) -> None:
    for name in SLOT_COLUMNS:
        table[name][slot, commits.row] = getattr(commits, name)


def _overwrite(table: KeyedRows, commits: PendingCommits, slot: npt.NDArray[Any]) -> None:
    """Overwrite the slot but keep its timestamp: otherwise a group that commits fast would never open another slot."""
    for name in ("offset", "order", "lag"):
        table[name][slot, commits.row] = getattr(commits, name)


def _insert(table: KeyedRows, commits: PendingCommits, slot: npt.NDArray[Any]) -> None:
    """Insert at the slot; it and all slots before it move one to the front."""
    moves = np.arange(len(table["order"]) - 1)[:, None] < slot
    for name in SLOT_COLUMNS:
        rows = table[name][:, commits.row]
        rows[:-1] = np.where(moves, rows[1:], rows[:-1])
        rows[slot, np.arange(len(slot))] = getattr(commits, name)
        table[name][:, commits.row] = rows
