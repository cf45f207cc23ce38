"""Inputs of the rules that only tests need: one policy for all rows, and facts without any evidence."""

from __future__ import annotations

import numpy as np

from lagwatch.verdict.facts import Facts
from lagwatch.verdict.policy import ALL_EXTENSIONS, DEFAULT_FLOOR_MS, Extension, Policy
from lagwatch.verdict.status import Mode


def lagwatch_policy(
    rows: int, allowed_lag: int = 0, floor_ms: int = DEFAULT_FLOOR_MS, extensions: Extension = ALL_EXTENSIONS
) -> Policy:
    """lagwatch's rules with the same settings for all rows."""
    return Policy(
        np.full(rows, allowed_lag, np.int64),
        np.zeros(rows, np.float32),
        np.full(rows, Mode.LAGWATCH, np.uint8),
        np.full(rows, floor_ms, np.int64),
        np.full(rows, extensions, np.uint8),
    )


def no_facts(rows: int) -> Facts:
    """Facts of rows that have only a window."""
    zero, no = np.zeros(rows, np.int64), np.zeros(rows, dtype=bool)
    return Facts(zero, zero, zero, np.zeros(rows), zero, zero, zero - 1, no, no, no)
