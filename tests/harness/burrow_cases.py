"""The shared test cases with Burrow's own results, and the comparison with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "burrow"

_PARTITION = ("status", "current_lag", "start", "end")
_GROUP = ("status", "partition_count", "totallag")


def cases(kind: str) -> list[dict[str, Any]]:
    """The cases of a kind: partition, group or storage; each has `id`, `input` and `expect`."""
    with gzip.open(FOLDER / f"{kind}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def same_answer(kind: str, found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether a result equals Burrow's in everything that must be equal."""
    if kind == "partition":
        return _same_partition(found, expected)
    if kind == "group":
        return _same_group(found, expected)
    if found["found"] != expected["found"] or found["windows"] != expected["windows"]:
        return False
    return _same_group(found["evaluation"], expected["evaluation"])


def _same_partition(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    same_names = all(found.get(name) == expected.get(name) for name in ("topic", "partition", "owner", "client_id"))
    same = all(found[name] == expected[name] for name in _PARTITION)
    return same and same_names and _close(found["complete"], expected["complete"])


def _same_group(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    same = all(found[name] == expected[name] for name in _GROUP) and _close(found["complete"], expected["complete"])
    pairs = zip(found["partitions"], expected["partitions"], strict=False)
    same &= len(found["partitions"]) == len(expected["partitions"]) and all(_same_partition(*pair) for pair in pairs)
    if found["maxlag"] is None or expected["maxlag"] is None:
        return same and found["maxlag"] is expected["maxlag"]
    return same and bool(found["maxlag"]["current_lag"] == expected["maxlag"]["current_lag"])


def _close(found: float, expected: float) -> bool:
    return abs(found - expected) <= 1e-6
