"""Polls of many generated series for a journal, with reproducible values."""

from __future__ import annotations

import numpy as np

from lagwatch.batch import Batch, Texts, make_batch
from lagwatch.catalogue import CONSUMER_LAG

_PARTITIONS = 50


def lag_batch(series: int, at_ms: int, *, behind: float = 0.2) -> Batch:
    """Lag of `series` group-partitions with their verdicts, deterministic by time.

    Offsets and ages are random: regular sequences would compress to half the size of real ones. A share of the
    groups is minutes behind, the others seconds.
    """
    number = np.arange(series, dtype=np.int64)
    fixed, now = np.random.default_rng(series), np.random.default_rng(at_ms)
    start, rate = fixed.integers(10**6, 10**9, series), fixed.integers(0, 200, series)
    committed = start + rate * (at_ms // 1000 % 10**6) + now.integers(0, 1000, series)
    groups = max(1, series // (2 * _PARTITIONS))
    topics = series // _PARTITIONS + 1
    group = number // (2 * _PARTITIONS) % groups
    is_behind = group < behind * groups
    lag_seconds = now.random(series) * np.where(is_behind, 600, 10)
    uncertain = now.random(series) * np.where(is_behind, 10, 2)
    return make_batch(
        CONSUMER_LAG,
        "east",
        at_ms,
        {
            "group": Texts(group.astype(np.int32), [f"service-{n}" for n in range(groups)]),
            "topic": Texts((number // _PARTITIONS).astype(np.int32), [f"topic.{n}" for n in range(topics)]),
            "partition": (number % _PARTITIONS).astype(np.int32),
            "committed_offset": committed,
            "lag": now.integers(0, 5000, series),
            "seconds_since_moved": now.random(series) * 10,
            "lag_seconds": lag_seconds,
            "lag_seconds_low": np.maximum(lag_seconds - uncertain, 0),
            "lag_seconds_high": lag_seconds + uncertain,
            "lag_source": np.where(is_behind, 2, 1),
            "status": np.where(is_behind, 2, 1),
            "rule": np.where(is_behind, 9, 1),
            "complete": np.ones(series),
            "abandoned": np.zeros(series, dtype=bool),
            "stale": np.zeros(series, dtype=bool),
        },
    )
