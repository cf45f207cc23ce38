"""Stores the windows of one cluster by Burrow's storage rules and gives them out as `Windows`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Masked, Texts
from lagwatch.columns import Names, distinct, group_keys, partition_keys, split_group_keys
from lagwatch.windows.ends import EndRings, arrival_rounds, grown
from lagwatch.windows.inputs import AssignedPartitions, Commits, EndOffsets, RowNames
from lagwatch.windows.insert import NO_SLOTS, SLOT_COLUMNS, TO_MEASURE, PendingCommits, empty_slots, insert_commits
from lagwatch.windows.view import UNKNOWN_LAG, Windows

NEVER = np.iinfo(np.int64).min  # as oldest_ms: no commit is too old
_CHUNK = 10_000
_PerCommit = int | npt.NDArray[np.int64]


class WindowStore:
    """Every window of one cluster; `slots` is Burrow's `intervals`. Not thread-safe.

    Callers drop deleted groups and topics by name; their numbers and memory are then reused.
    """

    def __init__(self, slots: int = 10) -> None:
        self.slots = slots
        self.groups, self.topics = Names(), Names()
        self.ends = EndRings(slots)
        self.table = empty_slots(slots)
        self._last_commit = np.zeros(0, np.int64)  # ms, by group number
        self.end_times: deque[int] = deque(maxlen=slots)  # when end offsets were observed
        self._end_rows: tuple[tuple[int, int], npt.NDArray[np.int32]] = ((-1, -1), np.zeros(0, np.int32))

    def resize(self, slots: int) -> None:
        """Keep windows of another width; of each the newest commits and ends stay."""
        self.slots = slots
        for table in (self.table, self.ends.table):
            table.resize_slots(slots)
            table["kept"][:] = np.minimum(table["kept"], slots)
        self.end_times = deque(self.end_times, maxlen=slots)

    @property
    def nbytes(self) -> int:
        """Memory of windows and end offsets."""
        return self.table.nbytes + self.ends.table.nbytes + self._end_rows[1].nbytes

    def observe_ends(self, ends: EndOffsets, at_ms: int = 0) -> None:
        """Append the end offsets of a poll, one ring entry per partition."""
        if len(ends.end):
            self.end_times.append(at_ms)
        topic = _numbered(self.topics, ends.topic)
        self.ends.observe(topic, ends.partition, ends.partition_count, ends.end)

    def observe_commits(
        self,
        commits: Commits,
        *,
        oldest_ms: _PerCommit = NEVER,
        min_distance_ms: _PerCommit = 0,
        lag_known: bool | npt.NDArray[np.bool_] = True,
        clock_may_step: bool | npt.NDArray[np.bool_] = False,
    ) -> None:
        """Insert commits; those older than `oldest_ms` or on a partition without an end offset are ignored.

        Commits less than `min_distance_ms` apart share a slot. The result does not depend on how commits are batched.
        As in Burrow, a commit timestamped before the newest slot shares that slot; with `clock_may_step`, one that is
        at least `min_distance_ms` earlier opens a new slot. Lag is relative to the current end offset, and unknown
        where `lag_known` is false (see `measure`).
        """
        topic = self._known_topics(commits.topic)
        end_row, has_end = self.ends.table.find(partition_keys(topic, commits.partition))
        taken = np.flatnonzero(has_end & (topic >= 0) & (commits.timestamp >= oldest_ms))
        if not len(taken):
            return
        group = self._numbered_groups(Texts(commits.group.codes[taken], commits.group.values))
        row = self._open_rows(group, topic[taken], commits.partition[taken])
        offset = commits.offset[taken]
        # End offsets arrive less often than commits: a commit beyond the last one has no lag.
        lag = np.maximum(self.ends.table["end"][-1, end_row[taken]] - offset, 0)
        lag = np.where(np.broadcast_to(lag_known, len(commits.order))[taken], lag, TO_MEASURE)
        distance = np.broadcast_to(np.asarray(min_distance_ms, np.int64), len(commits.order))[taken]
        may_step = np.broadcast_to(clock_may_step, len(commits.order))[taken]
        pending = PendingCommits(row, offset, commits.order[taken], commits.timestamp[taken], lag, distance, may_step)
        is_newest = np.zeros(len(taken), dtype=bool)
        for chosen in arrival_rounds(row):
            for chunk in np.split(chosen, range(_CHUNK, len(chosen), _CHUNK)):  # bounds the copies of shifted slots
                is_newest[chunk] = insert_commits(self.table, pending.where(chunk))
        # The last to arrive, not the highest timestamp, and not the one a merged slot keeps. For a group with several
        # commits numpy keeps the last.
        self._last_commit[group[is_newest]] = pending.timestamp[is_newest]

    def partition_rates(self, topic: Texts, partition: npt.NDArray[np.int32]) -> Masked:
        """Messages per second that arrive on these partitions, over the stored end offsets."""
        row, found = self.ends.table.find(partition_keys(self._known_topics(topic), partition))
        rate, known = self._rates()
        return Masked(rate[row], found & known[row]) if len(rate) else Masked(np.zeros(len(row)), found)

    def find_rows(self, group: Texts, topic: Texts, partition: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The row of each (group, topic, partition), -1 where there is none."""
        numbers = _at(self.groups.look_up(group.values), group.codes), self._known_topics(topic)
        row, found = self.table.find(group_keys(numbers[0], partition_keys(numbers[1], partition)))
        return np.where(found & (numbers[0] >= 0) & (numbers[1] >= 0), row, -1)

    def note(self, name: str) -> npt.NDArray[Any]:
        """A column of notes that polls record about every row, to read and write: see evaluation/notes.py."""
        return self.table[name]

    def measure(self, rows: npt.NDArray[np.int32], lag: npt.NDArray[np.int64]) -> None:
        """Set the lag of the newest commit of these rows where it is still unknown."""
        unknown = (self.table["lag"][-1, rows] == UNKNOWN_LAG) & (self.table["kept"][rows] > 0)
        self.table["lag"][-1, rows[unknown]] = lag[unknown]

    def renumber_orders(self) -> None:
        """Give every stored commit an order below any new one, whichever source the new orders come from."""
        self.table["order"][:] = np.arange(-self.slots, 0)[:, None]

    def shift(self, by_ms: int) -> None:
        """Express the times of all commits on another clock, which is ahead by `by_ms`."""
        kept = np.maximum(self.table["kept"], 0)
        filled = np.arange(self.slots)[:, None] >= self.slots - kept
        self.table["timestamp"][filled] += by_ms
        self._last_commit[self._last_commit > 0] += by_ms

    def empty(self, rows: npt.NDArray[np.intp]) -> None:
        """Remove all commits of these rows; the rows and their notes stay."""
        for name in SLOT_COLUMNS:
            self.table[name][:, rows] = UNKNOWN_LAG if name == "lag" else 0
        self.table["kept"][rows] = NO_SLOTS

    def messages_a_second(self) -> npt.NDArray[np.float64]:
        """Messages per second that arrive on the partition of each row; 0 where unknown."""
        rate, _ = self._rates()
        end_row = self._end_rows_now()
        return np.where(end_row >= 0, rate[end_row], 0) if len(rate) else np.zeros(len(self.table))

    def _rates(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Messages per second of each partition over its stored end offsets; a little too high after missed polls."""
        ends, times = self.ends.table["end"], np.array(self.end_times, dtype=np.int64)
        kept = np.minimum(self.ends.table["kept"].astype(np.int64), len(times))
        rate: npt.NDArray[np.float64] = np.zeros(len(kept))
        if not len(kept):
            return rate, np.zeros(0, dtype=bool)
        seconds = (times[-1] - times[np.minimum(len(times) - kept, len(times) - 1)]) / 1000
        growth = ends[-1] - ends[np.minimum(self.slots - kept, self.slots - 1), np.arange(len(kept))]
        np.divide(np.maximum(growth, 0), seconds, out=rate, where=seconds > 0)
        return rate, seconds > 0

    def observe_assigned(self, assigned: AssignedPartitions) -> npt.NDArray[np.bool_]:
        """Create the groups and rows of assigned partitions, before anything is committed.

        Returns which of them have a row: a partition without an end offset has none.
        """
        topic = self._known_topics(assigned.topic)
        group = self._numbered_groups(assigned.group)
        _, has_end = self.ends.table.find(partition_keys(topic, assigned.partition))
        has_end &= topic >= 0
        row = self._open_rows(group[has_end], topic[has_end], assigned.partition[has_end])
        self.table["kept"][row] = np.maximum(self.table["kept"][row], 0)
        return has_end

    def drop_topics(self, names: Iterable[str]) -> None:
        """Remove deleted topics from all groups. A group without other topics stays, without rows."""
        gone = [name for name in set(names) if name in self.topics.names()]
        numbers = self.topics.existing(gone)
        self._remove_rows(np.isin(split_group_keys(self.table.keys)[1], numbers))
        for number in numbers.tolist():
            self.ends.drop_topic(number)
        _forget(self.topics, gone)

    def drop_groups(self, names: Iterable[str]) -> None:
        """Remove deleted groups."""
        gone = list(set(names))
        numbers = self.groups.existing(gone)
        self._remove_rows(np.isin(split_group_keys(self.table.keys)[0], numbers))
        self._last_commit[numbers] = 0
        _forget(self.groups, gone)

    def drop_topic_of_groups(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Remove the rows of each (group, topic). Like in Burrow, a group left without rows is removed too."""
        pairs = list(pairs)
        groups, topics = self.groups.names(), self.topics.names()
        for group, topic in pairs:
            if group in groups and topic in topics:
                first, last = self._span(self.groups.existing([group]), self.topics.existing([topic]))
                self.table.remove(self.table.rows[first[0] : last[0]])
        with_rows = set(split_group_keys(self.table.keys)[0].tolist())
        named = {group for group, _ in pairs if group in groups}
        self.drop_groups(group for group in named if int(self.groups.existing([group])[0]) not in with_rows)

    def pairs(self) -> list[tuple[str, str]]:
        """Every (group, topic) that has rows."""
        group, topic, _ = split_group_keys(self.table.keys)
        pairs = np.unique(np.stack((group, topic)), axis=1) if len(group) else np.zeros((2, 0), np.int64)
        return [(self.groups.name(g), self.topics.name(t)) for g, t in pairs.T.tolist()]

    def last_commits(self) -> dict[str, int]:
        """Every group with the timestamp (ms) of its last commit; 0 for a group without commits."""
        return {self.groups.name(number): int(self._last_commit[number]) for number in self.groups.all().tolist()}

    def set_last_commits(self, times: Mapping[str, int]) -> None:
        """Restore the result of `last_commits`."""
        numbers = self.groups.numbers(times)
        self._last_commit = grown(self._last_commit, int(numbers.max(initial=-1)) + 1)
        self._last_commit[numbers] = list(times.values())

    def windows(self) -> Windows:
        """All rows without copying: valid until the store next changes."""
        end_row, kept = self._end_rows_now(), self.table["kept"]
        ends = self.ends.table["end"]
        current_lag = np.zeros(len(self.table), np.int64)
        if ends.shape[1]:
            behind = np.maximum(ends[-1, end_row] - self.table["offset"][-1], 0)
            current_lag = np.where((kept > 0) & (end_row >= 0), behind, 0)
        return Windows(
            offset=self.table["offset"].T,
            order=self.table["order"].T,
            timestamp=self.table["timestamp"].T,
            lag=self.table["lag"].T,
            width=np.where(kept == NO_SLOTS, 0, self.slots).astype(np.int16),
            kept=np.maximum(kept, 0),
            current_lag=current_lag,
            ends=ends.T,
            ends_kept=self.ends.table["kept"],
            end_row=end_row,
        )

    def row_names(self) -> RowNames:
        """The group, topic and partition of each row."""
        return RowNames(*split_group_keys(self.table.keys), self.table.rows)

    def _known_topics(self, topic: Texts) -> npt.NDArray[np.int64]:
        """Topic numbers, -1 for a topic without end offsets."""
        return _at(self.topics.look_up(topic.values), topic.codes)

    def _numbered_groups(self, group: Texts) -> npt.NDArray[np.int64]:
        numbers = _numbered(self.groups, group)
        self._last_commit = grown(self._last_commit, int(numbers.max(initial=-1)) + 1)
        return numbers

    def _open_rows(
        self, group: npt.NDArray[np.int64], topic: npt.NDArray[np.int64], partition: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int32]:
        """The rows of these partitions. Missing rows are created, for all partitions the topic has now."""
        keys = group_keys(group, partition_keys(topic, partition))
        row, found = self.table.find(keys)
        if found.all():
            return row
        start = np.unique((keys - partition)[~found])  # the key of partition 0 of each group and topic
        of_group, of_topic, _ = split_group_keys(start)
        first, last = self._span(of_group, of_topic)
        have = last - first
        missing = self.ends.partitions(of_topic) - have
        step = np.arange(int(missing.sum())) - np.repeat(np.cumsum(missing) - missing, missing)
        self.table.add(np.repeat(start + have, missing) + step)
        return self.table.find(keys)[0]

    def _span(self, group: npt.NDArray[np.int64], topic: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """The first and last + 1 position of the keys of each group and topic."""
        zero = np.zeros(len(group), np.int32)
        first = np.searchsorted(self.table.keys, group_keys(group, partition_keys(topic, zero)))
        return first, np.searchsorted(self.table.keys, group_keys(group, partition_keys(topic + 1, zero)))

    def _remove_rows(self, gone: npt.NDArray[np.bool_]) -> None:
        self.table.remove(self.table.rows[gone])

    def _end_rows_now(self) -> npt.NDArray[np.int32]:
        """The row of each row's end offsets, cached until rows are added or removed."""
        version = (self.table.changes, self.ends.table.changes)
        if self._end_rows[0] != version:
            _, topic, partition = split_group_keys(self.table.keys)
            at, found = self.ends.table.find(partition_keys(topic, partition))
            end_row = np.full(len(self.table), -1, np.int32)
            end_row[self.table.rows] = np.where(found, at, -1)
            self._end_rows = (version, end_row)
        return self._end_rows[1]


def _numbered(names: Names, texts: Texts) -> npt.NDArray[np.int64]:
    """The numbers of the texts that rows use; other values of the dictionary get none."""
    used, at = distinct(texts.codes)
    return _at(names.numbers(texts.values[code] for code in used), at)


def _at(numbers: npt.NDArray[np.int64], codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return numbers[codes] if len(codes) else np.zeros(0, np.int64)


def _forget(names: Names, gone: Sequence[str]) -> None:
    for name in gone:
        names.forget(name)
    names.keep(names.all())  # frees the numbers for reuse
