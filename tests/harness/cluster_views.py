"""Cluster snapshots for the commands, from a few rows with known values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BUILT_IN
from lagwatch.snapshot import ClusterView, Snapshot
from lagwatch.source_names import KAFKA

NOW_MS = 1_700_000_100_000


def batch(table: str, rows: Sequence[dict[str, Any]], at_ms: int = NOW_MS) -> Batch:
    """Rows as a batch; missing columns are null."""
    names = sorted({name for row in rows for name in row})
    return make_batch(BUILT_IN[table], "east", at_ms, {name: [row.get(name) for row in rows] for name in names})


def lag_row(group: str, topic: str, partition: int, committed: int, lag: int | None, **more: Any) -> dict[str, Any]:
    """A row of consumer_lag."""
    return {"group": group, "topic": topic, "partition": partition, "committed_offset": committed, "lag": lag, **more}


def seen(*batches: Batch, **options: Any) -> ClusterView:
    """A view of these batches. Without a source, the first of a table is the Kafka job's, each further one has its own."""
    tables: Counter[str] = Counter()
    named = []
    for batch in batches:
        tables[batch.table] += 1
        number = tables[batch.table]
        named.append(batch if batch.source else replace(batch, source=KAFKA if number == 1 else f"source-{number}"))
    return ClusterView(Snapshot.of("east", named), NOW_MS, **options)


def failure(source: str, target: str, reason: str, since_ms: int = NOW_MS) -> dict[str, Any]:
    """A row of `source` for a target that could not be queried."""
    return {"source": source, "target": target, "up": False, "since_ms": since_ms, "error": reason}
