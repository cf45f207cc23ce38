"""Adds to a batch of brokers how each compares with the mean: the balance of the cluster. Pure."""

from __future__ import annotations

import numpy as np

from lagwatch.batch import Batch, Masked, replace_columns
from lagwatch.columns import numbers_of

RATIOS = {
    "leaders": "leaders_ratio",
    "partitions": "partitions_ratio",
    "size_bytes": "size_ratio",
    "bytes_in_rate": "bytes_in_ratio",
    "bytes_out_rate": "bytes_out_ratio",
}


def with_ratios(batch: Batch) -> Batch:
    """The batch with the ratio of each column in RATIOS to its mean over the brokers that have it.

    A broker that is not registered leads nothing and is left out. A mean of zero gives no ratio.
    """
    registered = numbers_of(batch.rows, "registered")
    gone = registered.known & ~registered.values.astype(bool)
    columns = {}
    for name, ratio in RATIOS.items():
        column = numbers_of(batch.rows, name)
        known = column.known & ~gone
        mean = float(column.values[known].mean()) if known.any() else 0.0
        if mean > 0:
            values = np.round(column.values / mean, 4)
            columns[ratio] = Masked(values, known)
    return replace_columns(batch, columns) if columns else batch
