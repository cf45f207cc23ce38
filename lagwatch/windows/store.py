"""The windows of one cluster, kept by Burrow's storage rules: ends of partitions and commits in, `Windows` out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Masked, Texts
from lagwatch.columns import Names, distinct, group_keys, partition_keys, split_group_keys
from lagwatch.windows.ends import EndRings, arrival_rounds, grown
from lagwatch.windows.inputs import Commits, EndOffsets, Owned, RowNames
from lagwatch.windows.insert import NO_SLOTS, TO_MEASURE, Placed, empty_slots, place
from lagwatch.windows.view import UNKNOWN_LAG, Windows

NEVER = np.iinfo(np.int64).min  # as oldest_ms: nothing is too old
_AT_ONCE = 10_000
_Each = int | npt.NDArray[np.int64]


class WindowStore:
    """Every window of one cluster; `slots` is Burrow's `intervals`. Not safe for two threads.

    What goes must be dropped by name; nothing is kept of it, and its numbers and its memory are used again.
    """

    def __init__(self, slots: int = 10) -> None:
        self.slots = slots
        self.groups, self.topics = Names(), Names()
        self.ends = EndRings(slots)
        self.table = empty_slots(slots)
        self._last_commit = np.zeros(0, np.int64)  # ms, by group number
        self.end_times: deque[int] = deque(maxlen=slots)  # when ends were taken in
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
        """What rows and ends take in memory."""
        return self.table.nbytes + self.ends.table.nbytes + self._end_rows[1].nbytes

    def observe_ends(self, ends: EndOffsets, at_ms: int = 0) -> None:
        """Take in what the brokers say the ends are: one entry of the ring for each."""
        if len(ends.end):
            self.end_times.append(at_ms)
        topic = _numbered(self.topics, ends.topic)
        self.ends.observe(topic, ends.partition, ends.partition_count, ends.end)

    def observe_commits(
        self,
        commits: Commits,
        *,
        oldest_ms: _Each = NEVER,
        min_distance_ms: _Each = 0,
        lag_known: bool | npt.NDArray[np.bool_] = True,
    ) -> None:
        """Take in commits. One older than `oldest_ms`, or of a partition whose end is not known, is dropped unseen.

        Commits less than `min_distance_ms` apart share a slot. How the same commits are cut into batches changes nothing.
        Their lag is against the end known now, or is not known where the caller says so (see `measure`).
        """
        topic = self._known_topics(commits.topic)
        end_row, has_end = self.ends.table.find(partition_keys(topic, commits.partition))
        taken = np.flatnonzero(has_end & (topic >= 0) & (commits.timestamp >= oldest_ms))
        if not len(taken):
            return
        group = self._numbered_groups(Texts(commits.group.codes[taken], commits.group.values))
        row = self._open_rows(group, topic[taken], commits.partition[taken])
        offset = commits.offset[taken]
        # Ends come less often than commits: one beyond the known end has no lag.
        lag = np.maximum(self.ends.table["end"][-1, end_row[taken]] - offset, 0)
        lag = np.where(np.broadcast_to(lag_known, len(commits.order))[taken], lag, TO_MEASURE)
        distance = np.broadcast_to(np.asarray(min_distance_ms, np.int64), len(commits.order))[taken]
        placed = Placed(row, offset, commits.order[taken], commits.timestamp[taken], lag, distance)
        is_newest = np.zeros(len(taken), dtype=bool)
        for chosen in arrival_rounds(row):
            for some in np.split(chosen, range(_AT_ONCE, len(chosen), _AT_ONCE)):  # slots are copied as they move on
                is_newest[some] = place(self.table, placed.where(some))
        # The last that came, not the latest time, and before a merge set it back: where a group stands twice, numpy
        # keeps the last.
        self._last_commit[group[is_newest]] = placed.timestamp[is_newest]

    def partition_rates(self, topic: Texts, partition: npt.NDArray[np.int32]) -> Masked:
        """Messages that arrive in a second on these partitions, over the kept ends."""
        row, found = self.ends.table.find(partition_keys(self._known_topics(topic), partition))
        rate, known = self._rates()
        return Masked(rate[row], found & known[row]) if len(rate) else Masked(np.zeros(len(row)), found)

    def find_rows(self, group: Texts, topic: Texts, partition: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The row of each, -1 where there is none."""
        numbers = _at(self.groups.look_up(group.values), group.codes), self._known_topics(topic)
        row, found = self.table.find(group_keys(numbers[0], partition_keys(numbers[1], partition)))
        return np.where(found & (numbers[0] >= 0) & (numbers[1] >= 0), row, -1)

    def note(self, name: str) -> npt.NDArray[Any]:
        """What polls taught of every row, to read and to write: see notes.py."""
        return self.table[name]

    def measure(self, rows: npt.NDArray[np.int32], lag: npt.NDArray[np.int64]) -> None:
        """Set the lag of the newest commit of rows where it is not known yet."""
        unknown = (self.table["lag"][-1, rows] == UNKNOWN_LAG) & (self.table["kept"][rows] > 0)
        self.table["lag"][-1, rows[unknown]] = lag[unknown]

    def renumber_orders(self) -> None:
        """Make every kept commit older than any that comes, whatever its source numbers them by."""
        self.table["order"][:] = np.arange(-self.slots, 0)[:, None]

    def messages_a_second(self) -> npt.NDArray[np.float64]:
        """What arrives on the partition of each row; 0 where it is not known."""
        rate, _ = self._rates()
        end_row = self._end_rows_now()
        return np.where(end_row >= 0, rate[end_row], 0) if len(rate) else np.zeros(len(self.table))

    def _rates(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """What arrives on each partition in a second, over its kept ends. One that missed polls seems a little faster."""
        ends, times = self.ends.table["end"], np.array(self.end_times, dtype=np.int64)
        kept = np.minimum(self.ends.table["kept"].astype(np.int64), len(times))
        rate: npt.NDArray[np.float64] = np.zeros(len(kept))
        if not len(kept):
            return rate, np.zeros(0, dtype=bool)
        seconds = (times[-1] - times[np.minimum(len(times) - kept, len(times) - 1)]) / 1000
        growth = ends[-1] - ends[np.minimum(self.slots - kept, self.slots - 1), np.arange(len(kept))]
        np.divide(np.maximum(growth, 0), seconds, out=rate, where=seconds > 0)
        return rate, seconds > 0

    def observe_owned(self, owned: Owned) -> npt.NDArray[np.bool_]:
        """Take in assignments: they make the group and its rows known before anything is committed.

        Returns which of them have a row: a partition without a known end has none.
        """
        topic = self._known_topics(owned.topic)
        group = self._numbered_groups(owned.group)
        _, has_end = self.ends.table.find(partition_keys(topic, owned.partition))
        has_end &= topic >= 0
        row = self._open_rows(group[has_end], topic[has_end], owned.partition[has_end])
        self.table["kept"][row] = np.maximum(self.table["kept"][row], 0)
        return has_end

    def drop_topics(self, names: Iterable[str]) -> None:
        """Forget topics that are gone, in all groups. A group that has no other stays, without rows."""
        gone = [name for name in set(names) if name in self.topics.names()]
        numbers = self.topics.known(gone)
        self._remove_rows(np.isin(split_group_keys(self.table.keys)[1], numbers))
        for number in numbers.tolist():
            self.ends.drop_topic(number)
        _forget(self.topics, gone)

    def drop_groups(self, names: Iterable[str]) -> None:
        """Forget groups that are gone."""
        gone = list(set(names))
        numbers = self.groups.known(gone)
        self._remove_rows(np.isin(split_group_keys(self.table.keys)[0], numbers))
        self._last_commit[numbers] = 0
        _forget(self.groups, gone)

    def drop_topic_of_groups(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Forget what a group did on a topic, for each (group, topic). A group left without rows goes too: so in Burrow."""
        pairs = list(pairs)
        groups, topics = self.groups.names(), self.topics.names()
        for group, topic in pairs:
            if group in groups and topic in topics:
                first, last = self._span(self.groups.known([group]), self.topics.known([topic]))
                self.table.remove(self.table.rows[first[0] : last[0]])
        with_rows = set(split_group_keys(self.table.keys)[0].tolist())
        named = {group for group, _ in pairs if group in groups}
        self.drop_groups(group for group in named if int(self.groups.known([group])[0]) not in with_rows)

    def pairs(self) -> list[tuple[str, str]]:
        """Every (group, topic) that has rows."""
        group, topic, _ = split_group_keys(self.table.keys)
        pairs = np.unique(np.stack((group, topic)), axis=1) if len(group) else np.zeros((2, 0), np.int64)
        return [(self.groups.name(g), self.topics.name(t)) for g, t in pairs.T.tolist()]

    def last_commits(self) -> dict[str, int]:
        """Every group with the time (ms) of the newest commit that came; 0 for a group known only by its members."""
        return {self.groups.name(number): int(self._last_commit[number]) for number in self.groups.all().tolist()}

    def set_last_commits(self, times: Mapping[str, int]) -> None:
        """What `last_commits` gave, in another store."""
        numbers = self.groups.numbers(times)
        self._last_commit = grown(self._last_commit, int(numbers.max(initial=-1)) + 1)
        self._last_commit[numbers] = list(times.values())

    def windows(self) -> Windows:
        """All rows, without copying: good until the next change of the store."""
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
        """What each row is about."""
        return RowNames(*split_group_keys(self.table.keys), self.table.rows)

    def _known_topics(self, topic: Texts) -> npt.NDArray[np.int64]:
        """Topic numbers, -1 for a topic without any known end."""
        return _at(self.topics.look_up(topic.values), topic.codes)

    def _numbered_groups(self, group: Texts) -> npt.NDArray[np.int64]:
        numbers = _numbered(self.groups, group)
        self._last_commit = grown(self._last_commit, int(numbers.max(initial=-1)) + 1)
        return numbers

    def _open_rows(
        self, group: npt.NDArray[np.int64], topic: npt.NDArray[np.int64], partition: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int32]:
        """The rows of these, made where they are missing: then for all partitions the topic has by now."""
        keys = group_keys(group, partition_keys(topic, partition))
        row, found = self.table.find(keys)
        if found.all():
            return row
        start = np.unique((keys - partition)[~found])  # the key of partition 0: one for each group and topic
        of_group, of_topic, _ = split_group_keys(start)
        first, last = self._span(of_group, of_topic)
        have = last - first
        missing = self.ends.partitions(of_topic) - have
        step = np.arange(int(missing.sum())) - np.repeat(np.cumsum(missing) - missing, missing)
        self.table.add(np.repeat(start + have, missing) + step)
        return self.table.find(keys)[0]

    def _span(self, group: npt.NDArray[np.int64], topic: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Where the keys of each group and topic begin and end."""
        zero = np.zeros(len(group), np.int32)
        first = np.searchsorted(self.table.keys, group_keys(group, partition_keys(topic, zero)))
        return first, np.searchsorted(self.table.keys, group_keys(group, partition_keys(topic + 1, zero)))

    def _remove_rows(self, gone: npt.NDArray[np.bool_]) -> None:
        self.table.remove(self.table.rows[gone])

    def _end_rows_now(self) -> npt.NDArray[np.int32]:
        """Which ends each row reads; looked up again only after rows came or went."""
        version = (self.table.changes, self.ends.table.changes)
        if self._end_rows[0] != version:
            _, topic, partition = split_group_keys(self.table.keys)
            at, found = self.ends.table.find(partition_keys(topic, partition))
            end_row = np.full(len(self.table), -1, np.int32)
            end_row[self.table.rows] = np.where(found, at, -1)
            self._end_rows = (version, end_row)
        return self._end_rows[1]


def _numbered(names: Names, texts: Texts) -> npt.NDArray[np.int64]:
    """Numbers for the texts that rows use, and for no others."""
    used, at = distinct(texts.codes)
    return _at(names.numbers(texts.values[code] for code in used), at)


def _at(numbers: npt.NDArray[np.int64], codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return numbers[codes] if len(codes) else np.zeros(0, np.int64)


def _forget(names: Names, gone: Sequence[str]) -> None:
    for name in gone:
        names.forget(name)
    names.keep(names.all())  # lets the numbers be used again
