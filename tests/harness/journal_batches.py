"""Batches for tests of the journal, with contents computed from the poll number."""

from __future__ import annotations

import numpy as np

from lagwatch.batch import Batch, Texts, make_batch
from lagwatch.catalogue import CONSUMER_LAG, EVENT
from lagwatch.journal import Poll

START_MS = 1_700_000_000_000


def lag_batch(number: int, *, rows: int = 20, at_ms: int | None = None, cluster: str = "east") -> Batch:
    """Rows of consumer_lag with values computed from `number`."""
    random = np.random.default_rng(number)
    return make_batch(
        CONSUMER_LAG,
        cluster,
        START_MS + number * 1000 if at_ms is None else at_ms,
        {
            "group": Texts(np.zeros(rows, dtype=np.int32), [f"group-{number}"]),
            "topic": Texts(np.zeros(rows, dtype=np.int32), ["orders"]),
            "partition": np.arange(rows),
            "committed_offset": random.integers(10**6, 10**9, rows),
            "lag": random.integers(0, 10**5, rows),
            "seconds_since_moved": random.random(rows) * 100,
        },
    )


def event_batch(number: int, *, at_ms: int | None = None, cluster: str = "east") -> Batch:
    """One event with its number as subject."""
    at = START_MS + number * 1000 if at_ms is None else at_ms
    return make_batch(EVENT, cluster, at, {"kind": ["rebalance"], "subject": [f"poll {number}"]})


def poll_batches(number: int, *, rows: int = 20) -> list[Batch]:
    """The batches of the poll with this number."""
    return [lag_batch(number, rows=rows), event_batch(number)]


def same_batches(found: tuple[Batch, ...], expected: list[Batch]) -> bool:
    """Whether these are the same batches in the same order."""
    return len(found) == len(expected) and all(
        same_batch(one, other) for one, other in zip(found, expected, strict=True)
    )


def same_batch(one: Batch, other: Batch) -> bool:
    """Whether two batches are equal."""
    return (one.table, one.cluster, one.at_ms, one.schema_version) == (
        other.table,
        other.cluster,
        other.at_ms,
        other.schema_version,
    ) and one.rows.equals(other.rows)


def numbers(polls: list[Poll]) -> list[int]:
    """The poll numbers only."""
    return [poll.poll for poll in polls]
