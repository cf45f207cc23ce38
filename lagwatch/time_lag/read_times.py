"""Computes the earliest and latest time each broker can have read its end offsets in a poll."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lagwatch.columns import find
from lagwatch.time_lag.bracket import Ints


def read_between(
    leader: npt.NDArray[np.integer], ends_read: Mapping[int, tuple[int, int]], began_ms: int, ended_ms: int
) -> tuple[Ints, Ints]:
    """The earliest and latest time at which each partition's leader can have read its end offset.

    `ends_read` comes from the collector, in milliseconds after the start of the poll; a broker that is not in it read
    between start and end of the poll.
    """
    brokers = np.array(sorted(ends_read), dtype=np.int64)
    spans = np.array([ends_read[broker] for broker in brokers.tolist()], dtype=np.int64).reshape(-1, 2)
    at, found = find(brokers, leader.astype(np.int64))
    if not len(brokers):
        return np.full(len(leader), began_ms), np.full(len(leader), ended_ms)
    return np.where(found, began_ms + spans[at, 0], began_ms), np.where(found, began_ms + spans[at, 1], ended_ms)
