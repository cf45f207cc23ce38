"""Evaluates the groups of one cluster: feeds the windows, tracks how often each consumer commits, and applies the rules.

Its only inputs are journalled batches, so that replaying them after a restart gives the same state. Times are on the
agent's steady clock, which has no steps; while commits come from the offsets topic, those in the windows are on the
brokers' clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.batch import Batch, Column, Masked, Texts
from lagwatch.columns import numbers_of, texts_of
from lagwatch.evaluation.assignments import GroupAssignments
from lagwatch.evaluation.classify import classify_rows, facts_of_rows, policy_of_rows, rows_of_groups
from lagwatch.evaluation.groups import EvaluatedRows, evaluate_groups
from lagwatch.evaluation.notes import note_abandoned, note_poll
from lagwatch.evaluation.policies import Policies
from lagwatch.evaluation.poll_rows import LagRows, Members, ends_of
from lagwatch.evaluation.results import PollEvaluation
from lagwatch.evaluation.retention_limits import RetentionLimits
from lagwatch.evaluation.rewinds import LogStarts, Rewind, find_rewinds
from lagwatch.verdict.classify import Verdicts
from lagwatch.verdict.forecast import forecast
from lagwatch.verdict.lagwatch_rules import patience_ms
from lagwatch.verdict.status import Mode, VerdictRule
from lagwatch.windows import Commits, WindowStore

SHORTEST_SLOT_MS = 10_000
_CLEANUP_INTERVAL_MS = 600_000
_MAX_EARLY = 10
_STATE = ("tailing", "caught_up", "polled_ms", "skew_ms")
_BEFORE_TOPIC = -1  # the order of a commit that is older than what was read of the offsets topic
_POLL_ORDER = 1 << 62  # polls number commits by this plus their time: above any offset of the offsets topic


class Evaluator:
    """The windows of one cluster and the verdicts on them. Not thread-safe.

    By lagwatch's rules a slot lasts one poll interval, and at least 10 s: with one poll per second, ten slots would be too
    short to show a trend.
    """

    def __init__(
        self,
        policies: Policies | None = None,
        *,
        slots: int = 10,
        poll_ms: int = SHORTEST_SLOT_MS,
        reads_topic: bool = False,
    ) -> None:
        self.policies = policies or Policies()
        self.store = WindowStore(slots)
        self.reads_topic = reads_topic  # whether a job reads the offsets topic
        self.tailing = False  # whether commits come from it, as its last run says: then polls open no slots
        self.caught_up = False  # whether the offsets topic has been read to its end
        self.polled_ms = 0
        self.skew_ms = 0  # how far the wall clock is ahead of the steady clock; set before each run
        self.limits = RetentionLimits()
        self.keeps_rows = False  # whether to keep `rows` for inspection; they take a third of the memory of the windows
        self.rows: EvaluatedRows | None = None  # of the last poll
        self.poll_ms = poll_ms
        self._slot_ms = max(poll_ms, SHORTEST_SLOT_MS)
        self._assignments = GroupAssignments()
        self._starts = LogStarts()
        self._early: deque[tuple[Batch, int]] = deque(maxlen=_MAX_EARLY)

    def reconfigure(self, other: Evaluator) -> None:
        """Adopt the settings of another evaluator. The windows are kept, resized if the number of slots changes."""
        self.policies, self.reads_topic = other.policies, other.reads_topic
        self.poll_ms, self._slot_ms = other.poll_ms, other._slot_ms
        if other.store.slots != self.store.slots:
            self.store.resize(other.store.slots)

    def state(self) -> pa.RecordBatch:
        """What a checkpoint needs beside the windows."""
        return pa.RecordBatch.from_pylist([{name: getattr(self, name) for name in _STATE}])

    def restore(self, state: pa.RecordBatch) -> None:
        """Restore the result of `state`."""
        for name in _STATE:
            setattr(self, name, state[name][0].as_py())

    def observe_topic(self, commits: Batch | None, *, reads: bool, behind: bool) -> list[Rewind]:
        """Take in a run of the job that reads the offsets topic; without `reads` it could not, with `behind` not all of it.

        While there is a backlog, windows that polls fill stay with polls: commits older than what they hold would look
        like rewinds.
        """
        rewinds: list[Rewind] = []
        if commits is not None:
            if reads and not behind and not self.tailing:
                self._empty_single_slot_windows(commits)
            rewinds = self.observe_commits(commits, commits.at_ms)
        self.use_topic(tailing=reads and (self.tailing or not behind))
        self.caught_up = self.tailing and not behind
        return rewinds

    def _empty_single_slot_windows(self, commits: Batch) -> None:
        """Empty windows with a single slot, opened by a poll, where the topic has the commits themselves.

        By Burrow's rules only commits in the topic count.
        """
        rows, windows = commits.rows, self.store.windows()
        if not len(windows):
            return
        at = self.store.find_rows(
            texts_of(rows, "group"), texts_of(rows, "topic"), numbers_of(rows, "partition").values
        )
        replaced = np.zeros(len(windows), dtype=bool)
        replaced[at[at >= 0]] = True
        replaced |= policy_of_rows(self.store, self.policies).mode == Mode.BURROW
        self.store.empty(np.flatnonzero(replaced & (windows.kept == 1) & (windows.order[:, -1] >= _POLL_ORDER)))

    def use_topic(self, *, tailing: bool) -> None:
        """Switch the source of commits between the offsets topic and polls: they number and date commits differently."""
        if tailing != self.tailing:
            self.store.renumber_orders()
            self.store.shift(self.skew_ms if tailing else -self.skew_ms)
            self.tailing = tailing

    def drop(self, groups: Collection[str], topics: Collection[str]) -> None:
        """Drop deleted groups, and deleted or recreated topics."""
        self.store.drop_groups(groups)
        self.store.drop_topics(topics)
        self.limits.drop(topics)

    def observe_members(self, members: Batch) -> None:
        """Update the assignments; call it before `observe_poll` of the same poll."""
        self._assignments.observe(members)

    def observe_commits(self, commits: Batch, now_ms: int) -> list[Rewind]:
        """Add commits of the offsets topic; rows without an offset are deletions.

        Commits that arrive before any end offset is known are kept until the first poll.
        """
        if not len(self.store.ends.table):
            self._early.append((commits, now_ms))
            return []
        rows = commits.rows
        group, offset = texts_of(rows, "group"), numbers_of(rows, "committed_offset")
        partition = numbers_of(rows, "partition").values
        deleted = np.flatnonzero(
            ~offset.known & (partition < 0)
        )  # of whole groups; the next poll shows deleted single offsets
        self.store.drop_groups({group.values[code] for code in group.codes[deleted].tolist()})
        kept = np.flatnonzero(offset.known & self._is_after_window(commits))
        if not len(kept):
            return []
        ahead_ms = 0 if self.tailing else self.skew_ms  # windows that polls fill are on the steady clock
        taken = Commits(
            _some(group, kept),
            _some(texts_of(rows, "topic"), kept),
            partition[kept],
            offset.values[kept],
            numbers_of(rows, "order").values[kept],
            numbers_of(rows, "commit_time_ms").values[kept] - ahead_ms,
        )
        rewinds = find_rewinds(self.store, taken, self._starts)
        rules = self.policies.of_groups(group.values)[group.codes[kept]]
        is_burrow = self.policies.column(rules, "mode") == Mode.BURROW
        # By lagwatch's rules the lag of a commit is computed against the end offset of the next poll: against the previous
        # one, a group that commits between two polls would never show any lag.
        self.store.observe_commits(
            taken,
            oldest_ms=now_ms - ahead_ms - self.policies.column(rules, "expire_ms"),
            min_distance_ms=self._min_distance_ms(rules),
            lag_known=is_burrow,
            clock_may_step=~is_burrow,  # of the brokers, whose time commits carry
        )
        return rewinds

    def _is_after_window(self, commits: Batch) -> npt.NDArray[np.bool_]:
        """Which commits the window does not cover yet: after a start the look-back re-reads the others.

        Most of the others share a slot with a later commit and their order was not kept, so the windows would take them for
        missing older commits and open slots for them.
        """
        rows = commits.rows
        at = self.store.find_rows(
            texts_of(rows, "group"), texts_of(rows, "topic"), numbers_of(rows, "partition").values
        )
        windows, there = self.store.windows(), np.maximum(at, 0)
        if not len(windows):
            return np.ones(len(at), dtype=bool)
        is_old = (windows.kept[there] > 0) & (numbers_of(rows, "order").values <= windows.order[there, -1])
        return np.asarray((at < 0) | ~is_old)

    def observe_poll(self, partitions: Batch, lag: Batch, groups: Batch) -> PollEvaluation:
        """Add a poll that the pipeline completed, and evaluate every group."""
        now_ms = lag.at_ms - self.skew_ms
        self.store.observe_ends(ends_of(partitions), now_ms)
        self._starts.observe(self.store.topics, partitions)
        while self._early and len(self.store.ends.table):
            self.observe_commits(*self._early.popleft())
        rows = LagRows.of(lag)
        members = Members.of(groups)
        owned, abandoned = self._assignments.look_up(rows.group, rows.topic, rows.partition)
        rewinds = self._feed(rows, owned, self._window_ms(lag, now_ms))
        self._clean_up(rows, groups, now_ms, lag.at_ms)
        at = self.store.find_rows(rows.group, rows.topic, rows.partition)
        note_poll(self.store, rows, at, now_ms, self.polled_ms, self.poll_ms)
        note_abandoned(self.store, at, abandoned, rebalancing=rows_of_groups(self.store, members.rebalancing))
        self.polled_ms = now_ms
        evaluated = self._classified(rows, at, members, self._window_ms(lag, now_ms))
        self.rows = evaluated if self.keeps_rows else None
        return PollEvaluation(_lag_columns(evaluated.verdicts, at), evaluate_groups(evaluated), rewinds)

    def reevaluate(self, partitions: Batch, lag: Batch, groups: Batch) -> EvaluatedRows:
        """Evaluate the last poll again without changing the windows, for commands that only read."""
        self._starts.observe(self.store.topics, partitions)
        rows = LagRows.of(lag)
        at = self.store.find_rows(rows.group, rows.topic, rows.partition)
        return self._classified(rows, at, Members.of(groups), self._window_ms(lag, self.polled_ms))

    def _window_ms(self, lag: Batch, now_ms: int) -> int:
        """The time of a poll on the clock of the windows.

        That is the brokers' clock while commits come from the offsets topic, which carry its time, and the steady clock
        otherwise. They differ: the steady clock ignores corrections of a wrong clock, and the time the machine was
        suspended.
        """
        return lag.at_ms if self.tailing else now_ms

    def _classified(
        self,
        rows: LagRows,
        at: npt.NDArray[np.int32],
        members: Members,
        window_ms: int,
    ) -> EvaluatedRows:
        policy = policy_of_rows(self.store, self.policies)
        facts = facts_of_rows(self.store, rows, at, members, self._starts, self.polled_ms)
        verdicts, is_kept = classify_rows(self.store, facts, policy, at[(at >= 0) & ~rows.fresh], window_ms)
        windows = self.store.windows()
        retention = self.limits.of_rows(self.store, facts.log_start)
        ahead = forecast(windows, facts, rows.oldest_seconds(at, len(windows)), retention)
        return EvaluatedRows(self.store, windows, verdicts, is_kept, facts, policy, ahead, window_ms)

    def _feed(self, rows: LagRows, owned: npt.NDArray[np.bool_], now_ms: int) -> list[Rewind]:
        """Open slots for a poll: one for each offset that moved, and for each that is overdue to move.

        A poll cannot distinguish a consumer that commits the same offset again from one that does not commit. But an
        offset that does not move although a live member owns the partition is stalled, not stopped.
        If commits come from the offsets topic, polls only add those older than its look-back, once that has been read.
        """
        has_slots, same, gap_ms = self._compared(rows)
        rules = self.policies.of_groups(rows.group.values)[rows.group.codes]
        if self.tailing:
            opens = ~has_slots & (self.policies.column(rules, "mode") == Mode.LAGWATCH) & self.caught_up
        else:
            patience = patience_ms(gap_ms, self.policies.column(rules, "floor_ms"))
            opens = ~same | (owned & (rows.since_moved_ms >= patience))  # from the moment a rule considers it overdue
        taken = np.flatnonzero(rows.fresh & opens)
        if not len(taken):
            return []
        at_ms = np.full(len(taken), now_ms, np.int64)
        commits = Commits(
            _some(rows.group, taken),
            _some(rows.topic, taken),
            rows.partition[taken],
            rows.committed[taken],
            np.full(len(taken), _BEFORE_TOPIC) if self.tailing else _POLL_ORDER + at_ms,
            at_ms,
        )
        rewinds = find_rewinds(self.store, commits, self._starts)
        self.store.observe_commits(commits, min_distance_ms=self._min_distance_ms(rules[taken]))
        return rewinds

    def _compared(self, rows: LagRows) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Which rows have slots, which have the offset of their last slot, and the longest gap between their moves.

        No view of the windows may outlive this call: it would keep columns in memory after they were replaced.
        """
        at = self.store.find_rows(rows.group, rows.topic, rows.partition)
        known = np.flatnonzero(at >= 0)
        windows = self.store.windows()
        has_slots, same = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        gap_ms = np.zeros(len(rows), np.int64)
        has_slots[known] = windows.kept[at[known]] > 0
        same[known] = has_slots[known] & (windows.offset[at[known], -1] == rows.committed[known])
        gap_ms[known] = self.store.note("gap")[at[known]].astype(np.int64) * 1000
        return has_slots, same, gap_ms

    def _min_distance_ms(self, rules: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        is_burrow = self.policies.column(rules, "mode") == Mode.BURROW
        return np.where(is_burrow, self.policies.column(rules, "min_distance_ms"), self._slot_ms)

    def _clean_up(self, rows: LagRows, groups: Batch, now_ms: int, wall_ms: int) -> None:
        """Every ten minutes, drop topics that a group no longer has commits for; stale groups keep everything."""
        if now_ms // _CLEANUP_INTERVAL_MS == self.polled_ms // _CLEANUP_INTERVAL_MS:
            return
        names, stale = texts_of(groups.rows, "group"), numbers_of(groups.rows, "stale").values
        self.policies.keep(names.values)
        fresh = {names.values[code] for code in names.codes[~stale].tolist()}
        pairs = set(zip(rows.group.codes.tolist(), rows.topic.codes.tolist(), strict=True))
        have = {(rows.group.values[group], rows.topic.values[topic]) for group, topic in pairs}
        self.store.drop_topic_of_groups(
            pair for pair in self.store.pairs() if pair[0] in fresh and pair not in have
        )  # fmt: skip
        if self.tailing:
            self._drop_silent(set(names.values), wall_ms)

    def _drop_silent(self, listed: set[str], now_ms: int) -> None:
        """Drop groups that committed but were never listed by a poll, and, as Burrow does, groups that expired."""
        last = self.store.last_commits()
        rules = self.policies.of_groups(list(last))
        is_burrow = self.policies.column(rules, "mode") == Mode.BURROW
        expire_ms = np.where(is_burrow, self.policies.column(rules, "expire_ms"), np.iinfo(np.int64).max)
        silent_ms = now_ms - np.array(list(last.values()), np.int64)
        unlisted = np.array([group not in listed for group in last], dtype=bool)
        drop = (silent_ms > expire_ms) | (unlisted & (silent_ms > _CLEANUP_INTERVAL_MS))
        self.store.drop_groups([group for group, dropped in zip(last, drop.tolist(), strict=True) if dropped])


def _lag_columns(verdicts: Verdicts, at: npt.NDArray[np.int32]) -> dict[str, Column]:
    """The verdicts in the order of the poll's rows."""
    if not len(verdicts.rule):
        return {}
    there, row = at >= 0, np.maximum(at, 0)
    return {
        "status": Masked(verdicts.status[row].astype(np.int64), there),
        "rule": Masked(verdicts.rule[row].astype(np.int64), there),
        "complete": Masked(np.round(verdicts.complete[row].astype(np.float64), 3), there),
        "abandoned": Masked(verdicts.rule[row] == VerdictRule.ABANDONED, there),
    }


def _some(texts: Texts, rows: npt.NDArray[np.intp]) -> Texts:
    return Texts(texts.codes[rows], texts.values)
