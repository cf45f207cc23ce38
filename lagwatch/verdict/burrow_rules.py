"""Burrow's rules: one function per rule, each over all windows at once; `classify.py` applies them in order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lagwatch.verdict.facts import Flags, Numbers
from lagwatch.windows.view import Windows


def completeness(windows: Windows) -> npt.NDArray[np.float32]:
    """The filled share of a window's slots. An empty window counts as one filled slot, as in Burrow."""
    filled = np.maximum(windows.kept, 1).astype(np.float32)
    width = windows.width.astype(np.float32)
    return np.divide(filled, width, out=np.zeros(len(windows), np.float32), where=width > 0)


def is_silent(windows: Windows, now_ms: Numbers) -> Flags:
    """Is the newest commit older than the time its commits span? One commit spans no time: it is silent at once."""
    newest = windows.timestamp[:, -1]
    oldest = windows.timestamp[np.arange(len(windows)), windows.first]
    return np.asarray(now_ms - newest > newest - oldest)


def had_caught_up(windows: Windows) -> Flags:
    """Had it read everything at one of the kept log ends? They are only minutes old, so it is too early for STOP."""
    return np.asarray(windows.lowest_end() <= windows.offset[:, -1])


def has_rewound(windows: Windows) -> Flags:
    """Did its offset drop without getting back to where it dropped from? Only the first drop counts."""
    rows = len(windows)
    dropped, came_back, height = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool), np.zeros(rows, np.int64)
    for before, slot in neighbours(windows):
        drops = is_filled(windows, before) & (windows.offset[:, slot] < windows.offset[:, before]) & ~dropped
        height = np.where(drops, windows.offset[:, before], height)
        dropped |= drops
        came_back |= dropped & (windows.offset[:, slot] >= height)
    return dropped & ~came_back


def had_no_lag(windows: Windows, allowed_lag: Numbers) -> Flags:
    """Did a commit have no more lag than allowed? A commit with unknown lag does not count."""
    found = np.zeros(len(windows), dtype=bool)
    for slot in range(windows.slots):
        lag = windows.lag[:, slot]
        found |= (lag >= 0) & (lag <= allowed_lag)
    return found


def has_stalled(windows: Windows) -> Flags:
    """Are all its commits at the same offset? True of a single commit."""
    same = np.ones(len(windows), dtype=bool)
    for before, slot in neighbours(windows):
        same &= (windows.offset[:, slot] == windows.offset[:, before]) | ~is_filled(windows, before)
    return same


def only_grows(windows: Windows) -> Flags:
    """Did its lag, where known, never fall from one commit to the next?"""
    grows, last = np.ones(len(windows), dtype=bool), np.zeros(len(windows), np.int64)
    for slot in range(windows.slots):
        lag = windows.lag[:, slot]
        grows &= (lag < 0) | (lag >= last)
        last = np.where(lag < 0, last, lag)
    return grows


def neighbours(windows: Windows) -> list[tuple[int, int]]:
    """Each slot with the slot before it."""
    return [(slot - 1, slot) for slot in range(1, windows.slots)]


def is_filled(windows: Windows, slot: int) -> Flags:
    """The rows with a commit in this slot."""
    return np.asarray(windows.kept >= windows.slots - slot)
