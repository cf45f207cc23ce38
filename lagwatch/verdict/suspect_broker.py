"""Finds the broker behind under-replicated partitions, and counts brokers and partitions above sizing limits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MOST_PARTITIONS = 4_000  # recommended maximum of a broker
LARGEST_PARTITION_BYTES = 50 * 10**9  # larger ones take too long to move or recover

_COVERS = 0.8  # the suspect must be missing from at least this share of the under-replicated partitions
_RIVAL = 0.5  # and no other broker from more than this share of what the suspect is missing from


def suspect_broker(missing_row: npt.NDArray[np.int64], missing_broker: npt.NDArray[np.int32]) -> int | None:
    """The one broker behind the under-replication, or None when the evidence points to none or to several.

    The arrays pair under-replicated partitions with their replicas that are not in sync. One dead broker is missing from
    all partitions. Two dead brokers share them, and naming one would send the operator to half of the problem.
    """
    if not len(missing_row):
        return None
    partitions = len(np.unique(missing_row))
    brokers, counts = np.unique(missing_broker, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    most = int(counts[order[0]])
    rival = int(counts[order[1]]) if len(order) > 1 else 0
    if most < _COVERS * partitions or rival > _RIVAL * most:
        return None
    return int(brokers[order[0]])


def overfull_brokers(replica_broker: npt.NDArray[np.int32]) -> int:
    """The number of brokers above MOST_PARTITIONS."""
    return int((np.unique(replica_broker, return_counts=True)[1] > MOST_PARTITIONS).sum())


def oversized_partitions(size_bytes: npt.NDArray[np.int64]) -> int:
    """The number of partitions above LARGEST_PARTITION_BYTES."""
    return int((size_bytes > LARGEST_PARTITION_BYTES).sum())
