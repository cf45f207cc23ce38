"""The judgement of partitions: one function a rule, each over all windows at once, tried in Burrow's order.

Windows, policy and the clock go in, verdicts come out; nothing else is looked at, and nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Mode, Status, VerdictRule
from lagwatch.windows.view import Windows

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
RuleMatches = tuple[tuple[VerdictRule, Flags], ...]  # rules with the rows they hold for; the first that holds decides

NO_SLOT = -1
_FEW = 0.3  # below this share of rows, copying their windows together costs less than reading all of them


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What is said of each row. `start` and `end` are the slots of the oldest and newest commit, NO_SLOT without one."""

    status: npt.NDArray[np.uint8]
    complete: npt.NDArray[np.float32]
    start: npt.NDArray[np.int16]
    end: npt.NDArray[np.int16]
    rule: npt.NDArray[np.uint8]


def classify(windows: Windows, policy: Policy, now_s: int | Numbers) -> Verdicts:
    """Judge every window as Burrow does at `now_s`, the time in whole seconds (one for all, or one a row)."""
    if (policy.mode != Mode.BURROW).any():
        raise ValueError("only the rules of Burrow are known here")
    has_commits = windows.kept > 0
    complete = completeness(windows)
    # Both are 32-bit in Burrow: 7 slots of 10 are as much as a minimum of 0.7, which they would not be in 64 bits.
    judged = has_commits & (complete >= policy.minimum_complete.astype(np.float32))
    rule = np.where(has_commits, VerdictRule.INCOMPLETE, VerdictRule.NOTHING_COMMITTED).astype(np.uint8)
    rule[judged] = VerdictRule.CAUGHT_UP
    # No lag now excuses everything, for nothing is unread. On a good day few are left, and only their windows are read.
    behind = judged & (windows.current_lag > policy.allowed_lag)
    now_ms = np.broadcast_to(np.asarray(now_s, np.int64), len(windows)) * 1000
    if np.count_nonzero(behind) < _FEW * len(windows):
        rows = np.flatnonzero(behind)
        rule[rows] = first_match(rules_with_lag(windows.take(rows), policy.allowed_lag[rows], now_ms[rows]), len(rows))
    else:
        in_order = rules_with_lag(windows, policy.allowed_lag, now_ms)
        np.copyto(rule, first_match(in_order, len(windows)), where=behind)
    return verdicts_of(windows, rule, complete)


def verdicts_of(windows: Windows, rule: npt.NDArray[np.uint8], complete: npt.NDArray[np.float32]) -> Verdicts:
    """What follows from the rules that decided."""
    has_commits = windows.kept > 0
    return Verdicts(
        status=STATUS_OF_RULE[rule],
        complete=complete,
        start=np.where(has_commits, windows.first, NO_SLOT).astype(np.int16),
        end=np.where(has_commits, windows.slots - 1, NO_SLOT).astype(np.int16),
        rule=rule,
    )


def rules_with_lag(windows: Windows, allowed_lag: Numbers, now_ms: Numbers) -> RuleMatches:
    """The rules for windows with lag, in order; where none holds it moves.

    The order is the point. Silence comes first, for a group that stopped long ago may well have had no lag when it
    stopped; but if it had read everything a short while ago it gets time. A rewind comes before a zero lag in the
    window, behind which a jump back to the start would hide. Only then does an earlier zero lag excuse the rest: whoever
    caught up within the window is neither stalled nor slow.
    """
    return (
        (VerdictRule.SILENT, is_silent(windows, now_ms) & ~had_caught_up(windows)),
        (VerdictRule.REWOUND, has_rewound(windows)),
        (VerdictRule.HAD_NO_LAG, had_no_lag(windows, allowed_lag)),
        (VerdictRule.STALLED, has_stalled(windows)),
        (VerdictRule.ONLY_GROWS, only_grows(windows)),
    )


def first_match(in_order: RuleMatches, rows: int) -> npt.NDArray[np.uint8]:
    """For each row the first rule that holds, MOVES where none does."""
    rule = np.full(rows, VerdictRule.MOVES, np.uint8)
    for number, holds in reversed(in_order):  # so that the first to hold is the last to say so
        rule[holds] = number
    return rule


def completeness(windows: Windows) -> npt.NDArray[np.float32]:
    """The share of a window's slots that is filled. A window of empty slots counts as if one were: so Burrow does."""
    filled = np.maximum(windows.kept, 1).astype(np.float32)
    width = windows.width.astype(np.float32)
    return np.divide(filled, width, out=np.zeros(len(windows), np.float32), where=width > 0)


def is_silent(windows: Windows, now_ms: Numbers) -> Flags:
    """Is it silent for longer than its commits span? One commit spans nothing, so it is silent a second later."""
    newest = windows.timestamp[:, -1]
    oldest = windows.timestamp[np.arange(len(windows)), windows.first]
    return np.asarray(now_ms - newest > newest - oldest)


def had_caught_up(windows: Windows) -> Flags:
    """Had it read everything at one of the kept ends? That is minutes ago at most: too early to call it stopped."""
    return np.asarray(windows.lowest_end() <= windows.offset[:, -1])


def has_rewound(windows: Windows) -> Flags:
    """Did its offset drop, and not come back to where it dropped from? Only the first drop counts."""
    rows = len(windows)
    dropped, came_back, height = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool), np.zeros(rows, np.int64)
    for before, slot in neighbours(windows):
        drops = is_filled(windows, before) & (windows.offset[:, slot] < windows.offset[:, before]) & ~dropped
        height = np.where(drops, windows.offset[:, before], height)
        dropped |= drops
        came_back |= dropped & (windows.offset[:, slot] >= height)
    return dropped & ~came_back


def had_no_lag(windows: Windows, allowed_lag: Numbers) -> Flags:
    """Was there a commit with no more lag than allowed? One whose lag is not known does not tell."""
    found = np.zeros(len(windows), dtype=bool)
    for slot in range(windows.slots):
        lag = windows.lag[:, slot]
        found |= (lag >= 0) & (lag <= allowed_lag)
    return found


def has_stalled(windows: Windows) -> Flags:
    """Are all its commits at the same offset? A single commit is."""
    same = np.ones(len(windows), dtype=bool)
    for before, slot in neighbours(windows):
        same &= (windows.offset[:, slot] == windows.offset[:, before]) | ~is_filled(windows, before)
    return same


def only_grows(windows: Windows) -> Flags:
    """Did its lag never fall from one commit to the next, as far as it is known?"""
    grows, last = np.ones(len(windows), dtype=bool), np.zeros(len(windows), np.int64)
    for slot in range(windows.slots):
        lag = windows.lag[:, slot]
        grows &= (lag < 0) | (lag >= last)
        last = np.where(lag < 0, last, lag)
    return grows


def neighbours(windows: Windows) -> list[tuple[int, int]]:
    """Each slot with the one before it."""
    return [(slot - 1, slot) for slot in range(1, windows.slots)]


def is_filled(windows: Windows, slot: int) -> Flags:
    """Which rows hold a commit in this slot."""
    return np.asarray(windows.kept >= windows.slots - slot)


def _statuses() -> npt.NDArray[Any]:
    status = np.full(len(VerdictRule), Status.OK, np.uint8)
    for rule, said in (
        (VerdictRule.SILENT, Status.STOP),
        (VerdictRule.REWOUND, Status.REWIND),
        (VerdictRule.STALLED, Status.STALL),
        (VerdictRule.ONLY_GROWS, Status.WARN),
        (VerdictRule.LOST, Status.ERR),
        (VerdictRule.LOST_AND_GONE, Status.STOP),
        (VerdictRule.MEMBERS_GONE, Status.STOP),
        (VerdictRule.FALLS_BEHIND, Status.WARN),
        (VerdictRule.NEVER_MOVED, Status.WARN),
    ):
        status[rule] = said
    return status


STATUS_OF_RULE = _statuses()
