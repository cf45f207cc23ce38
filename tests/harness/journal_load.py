"""Polls of many made-up series in a journal, with values that can be computed again."""

from __future__ import annotations

import numpy as np

from lagwatch.batch import Batch, Texts, make_batch
from lagwatch.catalogue import CONSUMER_LAG

_PARTITIONS = 50


def lag_batch(series: int, at_ms: int) -> Batch:
    """Lag of so many group-partitions, the same for the same time.

    Offsets are random and grow at random rates: sequences that can be computed would compress to half of what real ones
    take.
    """
    number = np.arange(series, dtype=np.int64)
    fixed, now = np.random.default_rng(series), np.random.default_rng(at_ms)
    start, rate = fixed.integers(10**6, 10**9, series), fixed.integers(0, 200, series)
    committed = start + rate * (at_ms // 1000 % 10**6) + now.integers(0, 1000, series)
    groups = max(1, series // (2 * _PARTITIONS))
    topics = series // _PARTITIONS + 1
    return make_batch(
        CONSUMER_LAG,
        "east",
        at_ms,
        {
            "group": Texts(
                (number // (2 * _PARTITIONS) % groups).astype(np.int32), [f"service-{n}" for n in range(groups)]
            ),
            "topic": Texts((number // _PARTITIONS).astype(np.int32), [f"topic.{n}" for n in range(topics)]),
            "partition": (number % _PARTITIONS).astype(np.int32),
            "committed_offset": committed,
            "lag": now.integers(0, 5000, series),
            "seconds_since_moved": now.random(series) * 10,
            "stale": np.zeros(series, dtype=bool),
        },
    )
