"""How many groups of a cluster are in each status, beside the cluster's other numbers.

A board that shows thirty days of it reads one series of each cluster, not one of each group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lagwatch.batch import Batch, Column, make_batch, replace_columns
from lagwatch.catalogue import CLUSTER, CONSUMER_GROUP
from lagwatch.columns import numbers_of
from lagwatch.verdict.status import Status

SOURCE = "evaluation"
_COUNTED = (Status.OK, Status.WARN, Status.ERR, Status.STOP, Status.STALL, Status.REWIND)


def with_status_counts(batches: Sequence[Batch]) -> list[Batch]:
    """The batches of one poll; the cluster's row has the counts, and is made for them where the poll has none."""
    groups = next((batch for batch in batches if batch.table == CONSUMER_GROUP.name), None)
    if groups is None:
        return list(batches)
    counts = _counts(groups)
    counted = [replace_columns(b, counts) if b.table == CLUSTER.name and len(b) == 1 else b for b in batches]
    if not any(batch.table == CLUSTER.name for batch in batches):
        # Under a source of its own: it must not displace the row of the last poll that reached the cluster.
        counted.append(make_batch(CLUSTER, groups.cluster, groups.at_ms, counts, source=SOURCE))
    return counted


def _counts(groups: Batch) -> dict[str, Column]:
    """Counts of statuses are absent where no group was judged at all."""
    status, stale = numbers_of(groups.rows, "status"), numbers_of(groups.rows, "stale")
    fresh = status.values[status.known & ~stale.values]
    judged = not len(groups) or bool(status.known.any())
    counts: dict[str, Column] = {
        f"groups_{one.name.lower()}": [int(np.count_nonzero(fresh == one)) if judged else None] for one in _COUNTED
    }
    return counts | {"groups_stale": [int(np.count_nonzero(stale.values))]}
