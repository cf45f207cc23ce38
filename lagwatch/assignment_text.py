"""The text form of a member's assignment in `group_member`: `orders:0-3,7 payments:1`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def format_assignment(assignment: Iterable[tuple[str, Sequence[int]]]) -> str:
    """Topics with their partitions, which must be sorted; a topic without partitions is left out."""
    return " ".join(f"{topic}:{_format_ranges(partitions)}" for topic, partitions in assignment if len(partitions))


def parse_assignment(text: str) -> Iterator[tuple[str, list[int]]]:
    """The topics and partitions that `format_assignment` wrote. Never raises: text it did not write yields less."""
    for part in text.split(" "):
        topic, _, ranges = part.rpartition(":")  # a topic name may hold no colon, and no blank
        partitions = [
            partition
            for first, last in _RANGE.findall(ranges)
            for partition in range(int(first), int(last or first) + 1)
        ]
        if topic and partitions:
            yield topic, partitions


def _format_ranges(partitions: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
