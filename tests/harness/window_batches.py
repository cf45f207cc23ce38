"""Short constructors of commits and end offsets for tests of the windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lagwatch.batch import Texts
from lagwatch.windows import UNKNOWN_LAG, AssignedPartitions, Commits, EndOffsets, Windows, WindowStore

T0 = 1_700_000_000_000  # where the times of commits begin, in ms


def texts(names: Sequence[str]) -> Texts:
    """A text column."""
    values = sorted(set(names))
    return Texts(np.array([values.index(name) for name in names], np.int32), values)


def ends(*rows: tuple[str, int, int], partitions: int = 1) -> EndOffsets:
    """Rows of topic, partition, end."""
    topic, partition, end = zip(*rows, strict=True)
    count = np.full(len(rows), partitions, np.int64)
    return EndOffsets(texts(topic), np.array(partition, np.int32), count, np.array(end, np.int64))


def commits(*rows: tuple[int, int, float], group: str = "g", topic: str = "t", partition: int = 0) -> Commits:
    """Rows of order, offset, seconds after T0, all of one partition."""
    count = len(rows)
    order, offset, seconds = zip(*rows, strict=True)
    return Commits(
        group=texts([group] * count),
        topic=texts([topic] * count),
        partition=np.full(count, partition, np.int32),
        offset=np.array(offset, np.int64),
        order=np.array(order, np.int64),
        timestamp=np.array([T0 + round(1000 * at) for at in seconds], np.int64),
    )


def assigned(group: str, topic: str, partition: int) -> AssignedPartitions:
    """One partition assigned to a member of a group."""
    return AssignedPartitions(texts([group]), texts([topic]), np.array([partition], np.int32))


def slots_of(windows: Windows, row: int = 0) -> list[tuple[int, int, float, int | None]]:
    """The filled slots of a row: order, offset, seconds after T0, lag."""
    first = windows.slots - int(windows.kept[row])
    return [
        (
            int(windows.order[row, slot]),
            int(windows.offset[row, slot]),
            (int(windows.timestamp[row, slot]) - T0) / 1000,
            int(windows.lag[row, slot]) if windows.lag[row, slot] != UNKNOWN_LAG else None,
        )
        for slot in range(first, windows.slots)
    ]


def described(store: WindowStore) -> dict[tuple[str, str, int], Any]:
    """The contents of a store, by group, topic and partition."""
    windows, names = store.windows(), store.row_names()
    found = {}
    for group, topic, partition, row in zip(
        names.group.tolist(), names.topic.tolist(), names.partition.tolist(), names.row.tolist(), strict=True
    ):
        end_row = int(windows.end_row[row])
        kept = int(windows.ends_kept[end_row]) if end_row >= 0 else 0
        found[store.groups.name(group), store.topics.name(topic), partition] = (
            int(windows.width[row]),
            slots_of(windows, row),
            windows.ends[end_row].tolist()[store.slots - kept :],
            int(windows.current_lag[row]),
        )
    return found
