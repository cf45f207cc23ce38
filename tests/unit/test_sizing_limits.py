"""Brokers and partitions above the recommended sizes."""

from __future__ import annotations

import numpy as np

from lagwatch.verdict.sizing_limits import overfull_brokers, oversized_partitions


def test_brokers_above_4000_partitions_and_partitions_above_50_gb_are_counted() -> None:
    assert overfull_brokers(np.repeat(np.array([1, 2], np.int32), [4000, 4001])) == 1
    assert oversized_partitions(np.array([50 * 10**9, 50 * 10**9 + 1])) == 1
