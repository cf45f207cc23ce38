"""Polls with known contents for the tests of the archive, and the archive's rows as plain values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lagwatch.batch import Batch, Column, Texts, make_batch
from lagwatch.catalogue import BUILT_IN, CONSUMER_LAG, EVENT, TOPIC_PARTITION, Table
from lagwatch.clock import SettableClock
from lagwatch.sinks.archive.sink import ArchiveSink, read_archive

NOON_MS = 1_767_268_800_000  # 2026-01-01 12:00 UTC
HOUR_MS = 3_600_000


class Sinks:
    """Opens archives and closes them after the test."""

    def __init__(self) -> None:
        self._opened: list[ArchiveSink] = []

    def __call__(self, root: Path | str, **options: Any) -> ArchiveSink:
        """An archive in this folder; by default with a clock at noon."""
        given: dict[str, Any] = {"retention_days": 30, "catalogue": BUILT_IN, "clock": SettableClock(NOON_MS)} | options
        self._opened.append(ArchiveSink(str(root), **given))
        return self._opened[-1]

    def close(self) -> None:
        """Close all archives."""
        for opened in self._opened:
            opened.close()


@contextlib.contextmanager
def opened_sinks() -> Iterator[Sinks]:
    """An opener for one test."""
    sinks = Sinks()
    try:
        yield sinks
    finally:
        sinks.close()


def lag(at_ms: int, cluster: str = "east", groups: int = 3, partitions: int = 2) -> Batch:
    """Rows of consumer_lag with values computed from their time; groups are unordered."""
    rows = groups * partitions
    return make_batch(
        CONSUMER_LAG,
        cluster,
        at_ms,
        {
            "group": Texts(np.repeat(np.arange(groups), partitions).astype(np.int32)[::-1], names(groups)),
            "topic": ["orders"] * rows,
            "partition": np.tile(np.arange(partitions), groups),
            "committed_offset": np.arange(rows) + at_ms,
            "lag": np.arange(rows) * 7,
            "seconds_since_moved": np.full(rows, 0.1),
        },
    )


def names(count: int) -> list[str]:
    """Group names of every kind."""
    return ["ßillings", "a,b=c d", "audit\n", *(f"group-{number}" for number in range(3, count))][:count]


def sizes(at_ms: int, cluster: str = "east") -> Batch:
    """The rows of the log size job in topic_partition: only sizes."""
    columns: dict[str, Column] = {"topic": ["t"], "partition": [0], "size_bytes": [at_ms]}
    return make_batch(TOPIC_PARTITION, cluster, at_ms, columns, source="kafka_logdirs")


def ends(at_ms: int, cluster: str = "east") -> Batch:
    """What a poll writes into topic_partition."""
    columns: dict[str, Column] = {"topic": ["t"], "partition": [0], "log_end_offset": [at_ms]}
    return make_batch(TOPIC_PARTITION, cluster, at_ms, columns, source="kafka")


def events(at_ms: int, *subjects: str, cluster: str = "east") -> Batch:
    """Events of one kind."""
    return make_batch(EVENT, cluster, at_ms, {"kind": ["rebalance"] * len(subjects), "subject": list(subjects)})


def rows_of(root: Path | str, table: Table = CONSUMER_LAG, **options: Any) -> list[tuple[Any, ...]]:
    """Every row of the archive's table in the order of the files: cluster, time in ms, tags, fields."""
    found = read_archive(str(root), table, **options)
    columns = [
        found[name].cast("int64").to_pylist() if name == "at" else found[name].to_pylist()
        for name in found.column_names
    ]
    return list(zip(*columns, strict=True))


def expected_rows(*batches: Batch) -> list[tuple[Any, ...]]:
    """The same for batches."""
    return [(batch.cluster or None, batch.at_ms, *row.values()) for batch in batches for row in batch.rows.to_pylist()]


def files_of(root: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
