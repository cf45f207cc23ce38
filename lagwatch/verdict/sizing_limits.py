"""Counts brokers and partitions above the recommended sizes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MOST_PARTITIONS = 4_000  # recommended maximum of a broker
LARGEST_PARTITION_BYTES = 50 * 10**9  # larger ones take too long to move or recover


def overfull_brokers(replica_broker: npt.NDArray[np.int32]) -> int:
    """The number of brokers above MOST_PARTITIONS."""
    return int((np.unique(replica_broker, return_counts=True)[1] > MOST_PARTITIONS).sum())


def oversized_partitions(size_bytes: npt.NDArray[np.int64]) -> int:
    """The number of partitions above LARGEST_PARTITION_BYTES."""
    return int((size_bytes > LARGEST_PARTITION_BYTES).sum())
