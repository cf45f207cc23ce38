"""Applies the rules to all windows at once: windows, policy and time in, verdicts out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.verdict import burrow_rules
from lagwatch.verdict.burrow_rules import completeness
from lagwatch.verdict.facts import Facts, Flags, Numbers
from lagwatch.verdict.lagwatch_rules import RuleRows
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.rules import RULES, STATUS_OF_RULE
from lagwatch.verdict.status import Mode, VerdictRule
from lagwatch.windows.view import Windows

RuleMatches = tuple[tuple[int, Flags], ...]  # rule numbers with the rows they hold for; the first that holds decides

NO_SLOT = -1
_FEW = 0.3  # below this share of rows, copying their windows costs less than reading all of them
_AT_ONCE = 10_000
_IMMEDIATE = tuple(spec for spec in RULES if spec.is_immediate)
_WITH_LAG = tuple(spec for spec in RULES if not spec.is_immediate and spec.number != VerdictRule.MOVES)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdict on each row. `start` and `end` are the slots of the oldest and newest commit, NO_SLOT without one."""

    status: npt.NDArray[np.uint8]
    complete: npt.NDArray[np.float32]
    start: npt.NDArray[np.int16]
    end: npt.NDArray[np.int16]
    rule: npt.NDArray[np.uint8]


def classify_burrow(windows: Windows, policy: Policy, now_s: int | Numbers) -> Verdicts:
    """Evaluate every window as Burrow does at `now_s`, the time in whole seconds (one for all, or one a row)."""
    if (policy.mode != Mode.BURROW).any():
        raise ValueError("a row is not under Burrow's rules")
    immediate = immediate_burrow_matches(windows, policy)
    rule = first_match(immediate, len(windows))
    # A window without lag is OK whatever else it holds. Usually few have lag, and only those windows are read.
    behind = ~np.logical_or.reduce([holds for _, holds in immediate])
    now_ms = np.broadcast_to(np.asarray(now_s, np.int64), len(windows)) * 1000
    if np.count_nonzero(behind) < _FEW * len(windows):
        rows = np.flatnonzero(behind)
        rule[rows] = first_match(burrow_matches(windows.take(rows), policy.allowed_lag[rows], now_ms[rows]), len(rows))
    else:
        in_order = burrow_matches(windows, policy.allowed_lag, now_ms)
        np.copyto(rule, first_match(in_order, len(windows)), where=behind)
    return verdicts_of(windows, rule, completeness(windows))


def immediate_burrow_matches(windows: Windows, policy: Policy) -> RuleMatches:
    """Burrow's rules that do not read the slots of the window, in order."""
    # Both shares are 32-bit in Burrow: 7 slots of 10 meet a minimum of 0.7, which they would not in 64 bits.
    incomplete = completeness(windows) < policy.minimum_complete.astype(np.float32)
    return (
        (VerdictRule.NOTHING_COMMITTED, windows.kept == 0),
        (VerdictRule.INCOMPLETE, incomplete),
        (VerdictRule.CAUGHT_UP, windows.current_lag <= policy.allowed_lag),
    )


def burrow_matches(windows: Windows, allowed_lag: Numbers, now_ms: Numbers) -> RuleMatches:
    """Burrow's rules for windows with lag, in order."""
    silent = burrow_rules.is_silent(windows, now_ms) & ~burrow_rules.had_caught_up(windows)
    return (
        (VerdictRule.SILENT, silent),
        (VerdictRule.REWOUND, burrow_rules.has_rewound(windows)),
        (VerdictRule.HAD_NO_LAG, burrow_rules.had_no_lag(windows, allowed_lag)),
        (VerdictRule.STALLED, burrow_rules.has_stalled(windows)),
        (VerdictRule.ONLY_GROWS, burrow_rules.only_grows(windows)),
    )


def classify_lagwatch(windows: Windows, facts: Facts, policy: Policy, now_ms: int) -> Verdicts:
    """Evaluate every window by lagwatch's rules."""
    every = RuleRows(windows, facts, policy, now_ms)
    immediate = tuple((spec.number, spec.match(every)) for spec in _IMMEDIATE)
    rule = first_match(immediate, len(windows))
    rest = np.flatnonzero(~np.logical_or.reduce([holds for _, holds in immediate]))
    for some in np.split(rest, range(_AT_ONCE, len(rest), _AT_ONCE)):  # each part is a copy of its windows
        rows = every.take(some)
        rule[some] = first_match(tuple((spec.number, spec.match(rows)) for spec in _WITH_LAG), len(some))
    return verdicts_of(windows, rule, completeness(windows))


def first_match(in_order: RuleMatches, rows: int) -> npt.NDArray[np.uint8]:
    """For each row the first rule that holds, MOVES where none does."""
    rule = np.full(rows, VerdictRule.MOVES, np.uint8)
    for number, holds in reversed(in_order):  # the first to hold is written last
        rule[holds] = number
    return rule


def verdicts_of(windows: Windows, rule: npt.NDArray[np.uint8], complete: npt.NDArray[np.float32]) -> Verdicts:
    """The verdicts that follow from the deciding rules."""
    has_commits = windows.kept > 0
    return Verdicts(
        status=STATUS_OF_RULE[rule],
        complete=complete,
        start=np.where(has_commits, windows.first, NO_SLOT).astype(np.int16),
        end=np.where(has_commits, windows.slots - 1, NO_SLOT).astype(np.int16),
        rule=rule,
    )
