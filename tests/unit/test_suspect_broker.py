"""Which broker the missing replicas point at."""

from __future__ import annotations

import numpy as np
import pytest

from lagwatch.verdict.suspect_broker import suspect_broker


@pytest.mark.parametrize(
    ("missing", "suspect", "reason"),
    [
        ([], None, "nothing is missing"),
        ([(0, 2)], 2, "one partition misses one broker"),
        ([(0, 2), (1, 2), (2, 2)], 2, "all miss the same one"),
        ([(0, 2), (1, 3)], None, "two brokers, one partition each"),
        ([(0, 2), (0, 3), (1, 2), (1, 3)], None, "two dead brokers share all partitions"),
        ([(0, 2), (0, 3), (1, 2), (2, 2), (3, 2)], 2, "one broker in all, another in one of four"),
        ([(row, 2) for row in range(7)] + [(row, 3) for row in range(7, 10)], None, "covers only 7 of 10"),
        ([(row, 2) for row in range(9)] + [(9, 3)], 2, "covers 9 of 10, and no rival"),
    ],
)
def test_a_suspect_is_named_only_when_the_evidence_points_at_one(
    missing: list[tuple[int, int]], suspect: int | None, reason: str
) -> None:
    rows = np.array([row for row, _ in missing], dtype=np.int64)
    brokers = np.array([broker for _, broker in missing], dtype=np.int32)
    assert suspect_broker(rows, brokers) == suspect, reason
