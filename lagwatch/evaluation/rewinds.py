"""Detects committed offsets that went back: how far, and whether to the log start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch
from lagwatch.columns import Names, find, numbers_of, partition_keys, texts_of
from lagwatch.windows import Commits, WindowStore


@dataclass(frozen=True, slots=True)
class Rewind:
    """A group whose committed offsets went back on one or more partitions; the details are of the longest rewind."""

    group: str
    partitions: int
    deepest: str  # topic/partition
    before: int
    after: int
    to_log_start: bool

    @property
    def why(self) -> str:
        """One sentence."""
        where = (
            f"on {self.deepest}" if self.partitions == 1 else f"on {self.partitions} partitions, most on {self.deepest}"
        )
        depth = f"{self.before - self.after} messages back, from offset {self.before} to {self.after}"
        return f"group {self.group} went back {where}: {depth}{', the log start' if self.to_log_start else ''}"


class LogStarts:
    """The last known log start of every partition, by the topic numbers of a window store."""

    def __init__(self) -> None:
        self._keys, self._starts = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def observe(self, topics: Names, partitions: Batch) -> None:
        """Update with the partitions of a poll."""
        rows = partitions.rows
        topic, start = texts_of(rows, "topic"), numbers_of(rows, "log_start_offset")
        if not len(partitions):
            return
        numbers = topics.look_up(topic.values)[topic.codes]
        known = np.flatnonzero(start.known & (numbers >= 0))
        keys = partition_keys(numbers[known], numbers_of(rows, "partition").values[known])
        order = np.argsort(keys)
        self._keys, self._starts = keys[order], start.values[known][order]

    def look_up(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The log start of each partition key, -1 where unknown."""
        at, found = find(self._keys, keys)
        return np.where(found, self._starts[at], -1) if len(self._keys) else np.full(len(keys), -1, np.int64)

    def of_rows(self, store: WindowStore) -> npt.NDArray[np.int64]:
        """The log start of every row of the store, -1 where unknown."""
        names = store.row_names()
        starts = np.full(len(names.row), -1, np.int64)
        starts[names.row] = self.look_up(partition_keys(names.topic, names.partition))
        return starts


def find_rewinds(store: WindowStore, commits: Commits, starts: LogStarts) -> list[Rewind]:
    """The rewinds in commits that are not in the windows yet. Operators want to know of each, deliberate or not."""
    at = store.find_rows(commits.group, commits.topic, commits.partition)
    rows = np.flatnonzero(at >= 0)
    rows = rows[np.lexsort((commits.order[rows], at[rows]))]
    if not len(rows):
        return []
    windows = store.windows()
    row, offset = at[rows], commits.offset[rows]
    newest = np.where(windows.kept[row] > 0, windows.offset[row, -1], -1)
    newer = commits.order[rows] > np.where(windows.kept[row] > 0, windows.order[row, -1], -1)
    first = np.r_[True, row[1:] != row[:-1]]
    before = np.where(first, newest, np.r_[0, offset[:-1]])
    drops = np.flatnonzero(newer & (offset < before))
    found: dict[str, Rewind] = {}
    names = store.row_names()
    key_of_row = np.zeros(len(windows), np.int64)
    key_of_row[names.row] = partition_keys(names.topic, names.partition)
    start = starts.look_up(key_of_row[row[drops]])
    for place, log_start in zip(drops.tolist(), start.tolist(), strict=True):
        source = rows[place]
        group = commits.group.values[commits.group.codes[source]]
        where = f"{commits.topic.values[commits.topic.codes[source]]}/{commits.partition[source]}"
        one = Rewind(
            group, 1, where, int(before[place]), int(offset[place]), log_start >= 0 and int(offset[place]) <= log_start
        )
        found[group] = _merged(found[group], one) if group in found else one
    return list(found.values())


def _merged(rewind: Rewind, other: Rewind) -> Rewind:
    deepest = max(rewind, other, key=lambda one: one.before - one.after)
    count = rewind.partitions + (other.deepest != rewind.deepest)
    return Rewind(
        rewind.group, count, deepest.deepest, deepest.before, deepest.after, rewind.to_log_start or other.to_log_start
    )
