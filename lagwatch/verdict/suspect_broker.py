"""Finds the broker behind under-replicated partitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
