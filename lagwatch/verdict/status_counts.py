"""Counts the groups of each status into the cluster's row.

A dashboard over thirty days then reads one series per cluster instead of one per group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lagwatch.batch import Batch, Column, make_batch, replace_columns
from lagwatch.catalogue import CLUSTER, CONSUMER_GROUP
from lagwatch.columns import numbers_of
from lagwatch.source_names import EVALUATION
from lagwatch.verdict.status import WORST_FIRST

_COUNTED = sorted(WORST_FIRST)


def with_status_counts(batches: Sequence[Batch]) -> list[Batch]:
    """The batches of one poll, with the counts in the cluster's row; a poll without such a row gets one."""
    groups = next((batch for batch in batches if batch.table == CONSUMER_GROUP.name), None)
    if groups is None:
        return list(batches)
    counts = _counts(groups)
    counted = [replace_columns(b, counts) if b.table == CLUSTER.name and len(b) == 1 else b for b in batches]
    if not any(batch.table == CLUSTER.name for batch in batches):
        # Under a source of its own: it must not displace the row of the last poll that reached the cluster.
        counted.append(make_batch(CLUSTER, groups.cluster, groups.at_ms, counts, source=EVALUATION))
    return counted


def _counts(groups: Batch) -> dict[str, Column]:
    """The counts; None where no group was evaluated."""
    status, stale = numbers_of(groups.rows, "status"), numbers_of(groups.rows, "stale")
    fresh = status.values[status.known & ~stale.values]
    evaluated = not len(groups) or bool(status.known.any())
    counts: dict[str, Column] = {
        f"groups_{one.name.lower()}": [int(np.count_nonzero(fresh == one)) if evaluated else None] for one in _COUNTED
    }
    return counts | {"groups_stale": [int(np.count_nonzero(stale.values))]}
