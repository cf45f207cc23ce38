"""Keeps the last end offsets of every partition of a cluster, one entry per refresh."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lagwatch.columns import partition_keys
from lagwatch.windows.keyed_rows import KeyedRows, RowColumn
from lagwatch.windows.view import NO_END


class EndRings:
    """End offsets by topic number and partition, newest in the last slot; shared by all groups that read a partition."""

    def __init__(self, slots: int) -> None:
        self.table = KeyedRows({"end": RowColumn(slots, np.int64, NO_END), "kept": RowColumn(None, np.int16)})
        self._partitions = np.zeros(0, np.int64)  # by topic number

    def observe(
        self,
        topic: npt.NDArray[np.int64],
        partition: npt.NDArray[np.int32],
        partition_count: npt.NDArray[np.int64],
        end: npt.NDArray[np.int64],
    ) -> None:
        """Append end offsets in order of arrival. A topic's partition count only grows until the topic is dropped."""
        if not len(topic):
            return
        self.set_partitions(topic, np.maximum(partition_count, partition.astype(np.int64) + 1))
        keys = partition_keys(topic, partition)
        _, found = self.table.find(keys)
        self.table.add(np.unique(keys[~found]))
        row, _ = self.table.find(keys)
        for chosen in arrival_rounds(row):
            rows = row[chosen]
            ends = self.table["end"]
            ends[:-1, rows] = ends[1:, rows]
            ends[-1, rows] = end[chosen]
            self.table["kept"][rows] = np.minimum(self.table["kept"][rows] + 1, len(ends))

    def partitions(self, topic: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The partition counts of these topics."""
        return self._partitions[topic]

    def set_partitions(self, topic: npt.NDArray[np.int64], count: npt.NDArray[np.int64]) -> None:
        """Raise the partition counts of these topics to at least `count`."""
        self._partitions = grown(self._partitions, int(topic.max(initial=-1)) + 1)
        np.maximum.at(self._partitions, topic, count)

    def drop_topic(self, topic: int) -> None:
        """Remove a deleted topic."""
        wanted = np.array([topic, topic + 1], dtype=np.int64)
        first, last = np.searchsorted(self.table.keys, partition_keys(wanted, np.zeros(2, np.int32)))
        self.table.remove(self.table.rows[first:last])
        self._partitions[topic] = 0


def arrival_rounds(row: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.intp]]:
    """Splits the positions of a batch into rounds with each row at most once, earlier entries in earlier rounds."""
    if np.bincount(row).max(initial=0) < 2:
        yield np.arange(len(row))
        return
    by_row = np.argsort(row, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(row[by_row]) != 0])
    round_of = np.arange(len(row)) - np.repeat(first, np.diff(np.r_[first, len(row)]))
    in_rounds = np.argsort(round_of, kind="stable")
    yield from np.split(by_row[in_rounds], np.cumsum(np.bincount(round_of))[:-1])


def grown(column: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """The column, padded with zeros to a length."""
    if len(column) >= length:
        return column
    return np.concatenate((column, np.zeros(length - len(column), np.int64)))
