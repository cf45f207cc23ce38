"""lagwatch's rules: Burrow's rules, slower to report silence and faster where there is proof.

One function per rule, over all rows at once; `rules.py` has their order. docs/verdicts.md lists the user complaint that each
extension answers. A rule need not check `enabled_by`: `RuleSpec.match` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.verdict import burrow_rules
from lagwatch.verdict.burrow_rules import completeness, is_filled, neighbours
from lagwatch.verdict.facts import Facts, Flags, Numbers
from lagwatch.verdict.policy import Extension, Policy
from lagwatch.windows.view import Windows

GAPS = 1.5  # times its longest gap between moves that a consumer may stay at one offset
UNKNOWN_RHYTHM_MS = 300_000  # patience before two moves were observed: Kafka's own default of max.poll.interval.ms
NEVER_MOVED_MS = 900_000
_CONCORDANCE = 0.5  # rising minus falling pairs of lags, as a share of all pairs, that makes a trend
_LEAST_LAGS = 4
MAX_MARKERS = 10  # offsets before the log end that are taken for markers


@dataclass(frozen=True, slots=True)
class RuleRows:
    """The rows that rules evaluate, with everything they may use."""

    windows: Windows
    facts: Facts
    policy: Policy
    now_ms: int

    def take(self, rows: npt.NDArray[np.intp]) -> RuleRows:
        """Only these rows."""
        return RuleRows(self.windows.take(rows), self.facts.take(rows), self.policy.take(rows), self.now_ms)

    @property
    def has_commits(self) -> Flags:
        """The rows with a commit in their window."""
        return np.asarray(self.windows.kept > 0)

    @property
    def is_patience_over(self) -> Flags:
        """With the extension `patience`: overdue, and more than one commit in the window. Else always."""
        overdue = is_overdue(self.facts, self.policy) & (self.windows.kept > 1)
        return overdue | ~self.policy.is_enabled(Extension.PATIENCE)


def is_abandoned(rows: RuleRows) -> Flags:
    """Is no member of an active group assigned this topic?"""
    return rows.has_commits & rows.facts.abandoned


def is_losing(rows: RuleRows) -> Flags:
    """Were messages lost recently, or does the group have members that keep losing them?"""
    return rows.has_commits & (rows.facts.lost_ms >= 0) & is_recent_or_active(rows.windows, rows.facts)


def has_lost(rows: RuleRows) -> Flags:
    """Were messages lost long ago, in a group without members?"""
    return rows.has_commits & (rows.facts.lost_ms >= 0) & ~is_recent_or_active(rows.windows, rows.facts)


def has_nothing_committed(rows: RuleRows) -> Flags:
    """Is its window empty?"""
    return ~rows.has_commits


def is_incomplete(rows: RuleRows) -> Flags:
    """Is a smaller share of its slots filled than the settings require?"""
    return np.asarray(completeness(rows.windows) < rows.policy.minimum_complete)


def has_caught_up(rows: RuleRows) -> Flags:
    """Is its lag within the allowed lag?"""
    return np.asarray(rows.windows.current_lag <= rows.policy.allowed_lag)


def has_only_markers_left(rows: RuleRows) -> Flags:
    """Is everything unread a transaction marker?"""
    return np.asarray(rows.windows.current_lag <= rows.facts.markers)


def are_members_gone(rows: RuleRows) -> Flags:
    """Did its group lose all its members, and is it overdue? Groups that only commit (Flink, Spark) never had members."""
    return rows.facts.had_members & ~rows.facts.has_members & is_overdue(rows.facts, rows.policy)


def has_fallen_silent(rows: RuleRows) -> Flags:
    """Burrow's silence, once patience is over."""
    silent = burrow_rules.is_silent(rows.windows, np.full(len(rows.windows), rows.now_ms))
    return silent & ~burrow_rules.had_caught_up(rows.windows) & rows.is_patience_over


def is_rewound(rows: RuleRows) -> Flags:
    """Is it below the highest offset in its window? Without `every_rewind`, Burrow's rule."""
    by_burrow = burrow_rules.has_rewound(rows.windows)
    return np.where(rows.policy.is_enabled(Extension.EVERY_REWIND), is_below_highest_offset(rows.windows), by_burrow)


def had_no_lag(rows: RuleRows) -> Flags:
    """Burrow's rule, where markers before the log end count as no lag. False where the row is long overdue."""
    markers = np.where(rows.policy.is_enabled(Extension.MARKERS), rows.facts.markers, 0)
    had_none = burrow_rules.had_no_lag(rows.windows, np.maximum(rows.policy.allowed_lag, markers))
    return had_none & ~is_long_overdue(rows)


def has_stalled(rows: RuleRows) -> Flags:
    """Is it long overdue? Else Burrow's rule, once patience is over or a full window shows that it keeps committing."""
    by_window = burrow_rules.has_stalled(rows.windows) & (rows.is_patience_over | fills_its_window(rows))
    return by_window | is_long_overdue(rows)


def is_long_overdue(rows: RuleRows) -> Flags:
    """With the extension `patience`: has it been at one offset, with a message unread, for twice its patience?

    Its two newest slots at one offset show that it is alive: it committed that offset again, or a poll found a live member
    that owns the partition. Then the older slots need not leave the window first.
    """
    windows, facts, policy = rows.windows, rows.facts, rows.policy
    twice_ms = 2 * patience_ms(facts.gap_ms, policy.floor_ms)
    if windows.slots < 2:
        return np.zeros(len(windows), dtype=bool)
    is_alive = (windows.kept > 1) & (windows.offset[:, -1] == windows.offset[:, -2])
    waited = (facts.since_moved_ms >= twice_ms) & (facts.unread_ms >= twice_ms)
    return np.asarray(is_alive & waited & policy.is_enabled(Extension.PATIENCE))


def fills_its_window(rows: RuleRows) -> Flags:
    """Is its window full before two moves were observed, with a message unread for at least the floor?

    It is then alive and committing, so STALL need not wait for a known gap between moves. From polls no window fills
    that early, since an unmoved offset opens no slot before patience is over.
    """
    facts, floor_ms = rows.facts, rows.policy.floor_ms
    waited = (facts.since_moved_ms >= floor_ms) & (facts.unread_ms >= floor_ms)
    return np.asarray((facts.gap_ms == 0) & (rows.windows.kept == rows.windows.width) & waited)


def only_grows(rows: RuleRows) -> Flags:
    """Burrow's rule."""
    return burrow_rules.only_grows(rows.windows)


def moves(rows: RuleRows) -> Flags:
    """Always holds: the rule for rows that no other rule decides."""
    return np.ones(len(rows.windows), dtype=bool)


def is_overdue(facts: Facts, policy: Policy) -> Flags:
    """Has it been at one offset for longer than its patience, with a message unread for at least the floor?"""
    return (facts.since_moved_ms >= patience_ms(facts.gap_ms, policy.floor_ms)) & (facts.unread_ms >= policy.floor_ms)


def patience_ms(gap_ms: Numbers, floor_ms: Numbers) -> Numbers:
    """How long a consumer may stay at one offset: 1.5 times its longest recent gap between moves, at least the floor.

    Before a gap is observed its rhythm is unknown, and it gets the time Kafka itself allows between two polls.
    """
    by_rhythm = np.where(gap_ms > 0, (gap_ms * GAPS).astype(np.int64), UNKNOWN_RHYTHM_MS)
    return np.maximum(by_rhythm, floor_ms)


def is_below_highest_offset(windows: Windows) -> Flags:
    """Is its newest offset below the highest in its window? Then it has not recovered from a rewind yet."""
    highest = np.zeros(len(windows), np.int64)
    for slot in range(windows.slots):
        highest = np.maximum(highest, np.where(is_filled(windows, slot), windows.offset[:, slot], 0))
    return np.asarray(windows.offset[:, -1] < highest)


def falls_behind(rows: RuleRows) -> Flags:
    """Does its lag grow, despite dips, beyond what arrives between two of its moves?

    Lags are taken right after commits, against a log end of the same poll, so that rare commits do not look like growth.
    Of all pairs of lags far more must rise than fall, and the last that counts is the one after its last move: a consumer
    that returns from a pause may repeat its commit before it reads.
    """
    windows, facts = rows.windows, rows.facts
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
        after_move = is_known & ((known == 0) | (windows.offset[:, slot] != windows.offset[:, slot - 1]))
        last_lag, last_ms = np.where(after_move, lag, last_lag), np.where(after_move, at_ms, last_ms)
        known += is_known
    rises = (known >= _LEAST_LAGS) & (balance >= _CONCORDANCE * pairs) & (last_lag > first_lag)
    long_enough = last_ms - first_ms >= rows.policy.floor_ms
    explained = facts.messages_a_second * (facts.gap_ms * GAPS) / 1000
    return np.asarray(rises & long_enough & (last_lag > explained) & (windows.current_lag > explained))


def never_moved(rows: RuleRows) -> Flags:
    """Has it not moved in a long time under observation, with unread messages throughout? Too little evidence for STOP."""
    windows, facts = rows.windows, rows.facts
    waited = (facts.since_moved_ms >= NEVER_MOVED_MS) & (facts.unread_ms >= NEVER_MOVED_MS)
    return np.asarray((windows.kept == 1) & (facts.gap_ms == 0) & waited)


def is_recent_or_active(windows: Windows, facts: Facts) -> Flags:
    """Were messages lost within the window, or does the group have members?"""
    rows = np.arange(len(windows))
    span = windows.timestamp[:, -1] - windows.timestamp[rows, windows.first]
    return np.asarray(facts.has_members | (facts.lost_ms <= np.maximum(span, UNKNOWN_RHYTHM_MS)))


def learned_markers(windows: Windows, before: Numbers) -> Numbers:
    """The lag each consumer has left after reading everything, which must be markers; 0 where none.

    Learned from three or more moves that each left the same small lag: the marker that ends a transaction takes an offset
    that no consumer reads. A lag of zero resets it.
    """
    newest = windows.lag[:, -1]
    moves, same = np.zeros(len(windows), np.int64), np.ones(len(windows), dtype=bool)
    for earlier, slot in neighbours(windows):
        moved = is_filled(windows, earlier) & (windows.offset[:, slot] > windows.offset[:, earlier])
        moves += moved
        same &= ~moved | (windows.lag[:, slot] == newest)
    learned = (moves >= 3) & same & (newest > 0) & (newest <= MAX_MARKERS)
    return np.where(learned, newest, np.where(newest == 0, 0, before))
