"""The judgement of partitions by lagwatch's own rules: Burrow's, made patient, and quick where there is proof.

As in `partition_rules.py` one function is one rule over all rows, and the caller says why they are in this order.
Which user complaint each addition answers is in docs/verdicts.md.
"""

from __future__ import annotations

import numpy as np

from lagwatch.verdict.burrow_rules import (
    Flags,
    Numbers,
    RuleMatches,
    Verdicts,
    completeness,
    first_match,
    had_caught_up,
    had_no_lag,
    has_rewound,
    has_stalled,
    is_filled,
    is_silent,
    neighbours,
    only_grows,
    verdicts_of,
)
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.policy import Extension, Policy
from lagwatch.verdict.status import VerdictRule
from lagwatch.windows.view import Windows

GAPS = 1.5  # how many times its longest gap between moves a consumer may stand still
UNKNOWN_RHYTHM_MS = 300_000  # patience with a consumer that was never seen to move: Kafka's own max.poll.interval.ms
NEVER_MOVED_MS = 900_000
_CONCORDANCE = 0.5  # of all pairs of lags, how many more must rise than fall to be called a trend
_LEAST_LAGS = 4
LARGEST_REMAINDER = 10
_AT_ONCE = 10_000


def classify_lagwatch(windows: Windows, facts: Facts, policy: Policy, now_ms: int) -> Verdicts:
    """Judge every window by lagwatch's rules."""
    at_once = immediate_rules(windows, facts, policy)
    rule = np.full(len(windows), VerdictRule.MOVES, np.uint8)
    rows = np.flatnonzero(~np.logical_or.reduce([holds for _, holds in at_once]))
    for some in np.split(rows, range(_AT_ONCE, len(rows), _AT_ONCE)):  # their windows are copied together
        with_lag = rules_with_lag(windows.take(some), facts.take(some), policy.take(some), now_ms)
        rule[some] = first_match(with_lag, len(some))
    for number, holds in reversed(at_once):
        rule[holds] = number
    return verdicts_of(windows, rule, completeness(windows))


def immediate_rules(windows: Windows, facts: Facts, policy: Policy) -> RuleMatches:
    """What decides without a look into the window, in order.

    A topic nobody reads any more judges nobody. Lost messages are lost, however little lag is left. Then what is not
    judged, and who has no lag.
    """
    has_commits = windows.kept > 0
    is_lost = has_commits & policy.is_enabled(Extension.LOSS) & (facts.lost_ms >= 0)
    is_urgent = is_recent_or_alive(windows, facts)
    return (
        (VerdictRule.ABANDONED, has_commits & policy.is_enabled(Extension.ABANDONED) & facts.abandoned),
        (VerdictRule.LOST, is_lost & is_urgent),
        (VerdictRule.LOST_AND_GONE, is_lost & ~is_urgent),
        (VerdictRule.NOTHING_COMMITTED, ~has_commits),
        (VerdictRule.INCOMPLETE, completeness(windows) < policy.minimum_complete),
        (VerdictRule.CAUGHT_UP, windows.current_lag <= policy.allowed_lag),
        (VerdictRule.ONLY_MARKERS, policy.is_enabled(Extension.REMAINDER) & (windows.current_lag <= facts.remainder)),
    )


def rules_with_lag(windows: Windows, facts: Facts, policy: Policy, now_ms: int) -> RuleMatches:
    """The rules for windows with lag, in order; where none holds it moves.

    The order is Burrow's. That the members are gone is proof, so it comes before silence, which is only a sign; what never
    moved comes last, for nothing is known of it but that.
    """
    patient = policy.is_enabled(Extension.PATIENCE)
    waited = is_overdue(facts, policy) | ~patient
    silent = is_silent(windows, np.full(len(windows), now_ms)) & ~had_caught_up(windows)
    every_rewind = policy.is_enabled(Extension.EVERY_REWIND)
    trend = policy.is_enabled(Extension.TREND)
    remainder = np.where(policy.is_enabled(Extension.REMAINDER), facts.remainder, 0)
    return (
        (
            VerdictRule.MEMBERS_GONE,
            policy.is_enabled(Extension.MEMBERS_GONE) & are_members_gone(facts) & is_overdue(facts, policy),
        ),
        (VerdictRule.SILENT, silent & waited & ((windows.kept > 1) | ~patient)),
        (VerdictRule.REWOUND, np.where(every_rewind, is_below_its_best(windows), has_rewound(windows))),
        (VerdictRule.HAD_NO_LAG, had_no_lag(windows, np.maximum(policy.allowed_lag, remainder))),
        (VerdictRule.STALLED, has_stalled(windows) & waited & ((windows.kept > 1) | ~patient)),
        (VerdictRule.ONLY_GROWS, only_grows(windows) & ~trend),
        (VerdictRule.FALLS_BEHIND, falls_behind(windows, facts, policy.floor_ms) & trend),
        (VerdictRule.NEVER_MOVED, never_moved(windows, facts) & patient),
    )


def is_overdue(facts: Facts, policy: Policy) -> Flags:
    """Has it stood still for longer than its own rhythm explains, while something unread waited for the floor?"""
    return (facts.still_ms >= patience_ms(facts.gap_ms, policy.floor_ms)) & (facts.unread_ms >= policy.floor_ms)


def patience_ms(gap_ms: Numbers, floor_ms: Numbers) -> Numbers:
    """How long a consumer may stand still: 1.5 times its longest recent gap between moves, the floor at least.

    Before a gap was seen its rhythm is not known, and it gets the time Kafka itself gives a consumer between two polls.
    """
    by_rhythm = np.where(gap_ms > 0, (gap_ms * GAPS).astype(np.int64), UNKNOWN_RHYTHM_MS)
    return np.maximum(by_rhythm, floor_ms)


def are_members_gone(facts: Facts) -> Flags:
    """Had its group members, and has it none now? Groups that only commit (Flink, Spark, scripts) never had any."""
    return facts.had_members & ~facts.has_members


def is_below_its_best(windows: Windows) -> Flags:
    """Is its offset below one it had reached in the window? Then a rewind, whichever, is not made good yet."""
    best = np.zeros(len(windows), np.int64)
    for slot in range(windows.slots):
        best = np.maximum(best, np.where(is_filled(windows, slot), windows.offset[:, slot], 0))
    return np.asarray(windows.offset[:, -1] < best)


def falls_behind(windows: Windows, facts: Facts, floor_ms: Numbers) -> Flags:
    """Does its lag grow, dips or not, beyond what arrives between two of its moves?

    Lags are those right after a move, measured against an end of the same poll: a consumer that commits seldom looks the
    same each time. Of all pairs of them far more must rise than fall.
    """
    known = np.zeros(len(windows), np.int64)
    first_ms, last_ms = np.zeros(len(windows), np.int64), np.zeros(len(windows), np.int64)
    first_lag, last_lag = np.zeros(len(windows), np.int64), np.zeros(len(windows), np.int64)
    balance, pairs = np.zeros(len(windows), np.int64), np.zeros(len(windows), np.int64)
    for slot in range(windows.slots):
        lag, at_ms = windows.lag[:, slot], windows.timestamp[:, slot]
        is_known = lag >= 0
        for earlier in range(slot):
            both = is_known & (windows.lag[:, earlier] >= 0)
            balance += np.where(both, np.sign(lag - windows.lag[:, earlier]), 0)
            pairs += both
        first_lag = np.where(is_known & (known == 0), lag, first_lag)
        first_ms = np.where(is_known & (known == 0), at_ms, first_ms)
        last_lag, last_ms = np.where(is_known, lag, last_lag), np.where(is_known, at_ms, last_ms)
        known += is_known
    rises = (known >= _LEAST_LAGS) & (balance >= _CONCORDANCE * pairs) & (last_lag > first_lag)
    long_enough = last_ms - first_ms >= floor_ms
    explained = facts.messages_a_second * (facts.gap_ms * GAPS) / 1000
    return np.asarray(rises & long_enough & (last_lag > explained) & (windows.current_lag > explained))


def never_moved(windows: Windows, facts: Facts) -> Flags:
    """Was it never seen to move, for a long time, with something unread all that time? Too little to call it stopped."""
    waited = (facts.still_ms >= NEVER_MOVED_MS) & (facts.unread_ms >= NEVER_MOVED_MS)
    return np.asarray((windows.kept == 1) & (facts.gap_ms == 0) & waited)


def is_recent_or_alive(windows: Windows, facts: Facts) -> Flags:
    """Were messages lost within the window, or is somebody there who goes on losing them?"""
    rows = np.arange(len(windows))
    span = windows.timestamp[:, -1] - windows.timestamp[rows, windows.first]
    return np.asarray(facts.has_members | (facts.lost_ms <= np.maximum(span, UNKNOWN_RHYTHM_MS)))


def learned_remainder(windows: Windows, before: Numbers) -> Numbers:
    """What each consumer leaves unread whenever it has read all there is; 0 where it leaves nothing.

    Learnt from three moves or more that each left the same few: the marker that ends a transaction takes an offset, and no
    consumer reads it. A lag of zero unlearns it.
    """
    newest = windows.lag[:, -1]
    moves, same = np.zeros(len(windows), np.int64), np.ones(len(windows), dtype=bool)
    for earlier, slot in neighbours(windows):
        moved = is_filled(windows, earlier) & (windows.offset[:, slot] > windows.offset[:, earlier])
        moves += moved
        same &= ~moved | (windows.lag[:, slot] == newest)
    learnt = (moves >= 3) & same & (newest > 0) & (newest <= LARGEST_REMAINDER)
    return np.where(learnt, newest, np.where(newest == 0, 0, before))
