"""Tracks when retention deletes messages, from topic configs and partition sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch
from lagwatch.columns import find, numbers_of, partition_keys, strings_of, texts_of
from lagwatch.verdict.forecast import NEVER, Retention
from lagwatch.windows import WindowStore


@dataclass(frozen=True, slots=True)
class _Limit:
    seconds: float
    size_bytes: float


_NO_LIMIT = _Limit(NEVER, NEVER)


class RetentionLimits:
    """The retention limits of a cluster's topics. Unknown means no limit: no loss is forecast from a guess."""

    def __init__(self) -> None:
        self._topics: dict[str, _Limit] = {}
        self._compacted: set[str] = set()
        self._sizes: Batch | None = None

    def observe_configs(self, topics: Batch) -> None:
        """Replace the limits by those of the configs job's `topic` rows."""
        self._topics.clear()
        self._compacted.clear()
        rows = topics.rows
        columns = (rows.column(name).to_pylist() for name in ("retention_ms", "retention_bytes"))
        names, policies = strings_of(rows, "topic"), strings_of(rows, "cleanup_policy")
        for topic, policy, retention_ms, retention_bytes in zip(names, policies, *columns, strict=True):
            if policy is not None:
                deletes = "delete" in policy
                if "compact" in policy:
                    self._compacted.add(topic)
                self._topics[topic] = _Limit(
                    _limit(retention_ms, 1000, deletes=deletes), _limit(retention_bytes, 1, deletes=deletes)
                )

    def observe_sizes(self, partitions: Batch) -> None:
        """Update from the `topic_partition` rows of the logdirs job."""
        self._sizes = partitions

    def drop(self, topics: Iterable[str]) -> None:
        """Drop deleted topics."""
        for topic in topics:
            self._topics.pop(topic, None)
            self._compacted.discard(topic)

    def is_compacted(self, topic: str) -> bool:
        """Whether offsets of the topic may have gaps."""
        return topic in self._compacted

    def of_rows(self, store: WindowStore, log_start: npt.NDArray[np.int64]) -> Retention:
        """The retention of the partition of every store row."""
        names = store.row_names()
        rows = len(names.row)
        numbers = store.topics.all()
        limits = [self._topics.get(store.topics.name(number), _NO_LIMIT) for number in numbers.tolist()]
        seconds_of, size_of = (np.full(int(numbers.max(initial=-1)) + 1, NEVER) for _ in range(2))
        seconds_of[numbers] = [limit.seconds for limit in limits]
        size_of[numbers] = [limit.size_bytes for limit in limits]
        seconds, left = np.full(rows, NEVER), np.full(rows, NEVER)
        seconds[names.row] = seconds_of[names.topic]
        limited = np.flatnonzero(size_of[names.topic] < NEVER)
        if len(limited) and self._sizes is not None:
            row, key = names.row[limited], partition_keys(names.topic[limited], names.partition[limited])
            size = _sizes(store, self._sizes, key)
            windows = store.windows()
            held = np.maximum(windows.ends[windows.end_row[row], -1] - np.maximum(log_start[row], 0), 1)
            room = np.maximum(size_of[names.topic[limited]] - size, 0)
            left[row] = np.where(size > 0, room * held / np.maximum(size, 1), NEVER)
        return Retention(seconds, left)


def _sizes(store: WindowStore, partitions: Batch, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The size of partitions in bytes, by key; 0 where unknown."""
    rows = partitions.rows
    names = texts_of(rows, "topic")
    keys = partition_keys(store.topics.look_up(names.values)[names.codes], numbers_of(rows, "partition").values)
    order = np.argsort(keys)
    at, found = find(keys[order], wanted)
    size: npt.NDArray[np.float64] = numbers_of(rows, "size_bytes").values[order].astype(np.float64)
    return np.where(found, size[at], 0) if len(size) else np.zeros(len(wanted))


def _limit(value: int | None, unit: float, *, deletes: bool) -> float:
    return NEVER if value is None or value < 0 or not deletes else value / unit
