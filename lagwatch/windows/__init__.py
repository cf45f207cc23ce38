"""Sliding windows of commits and end offsets for every (group, topic, partition).

`WindowStore` updates them by Burrow's storage rules; `Windows` is the view that the verdict rules read.
"""

from lagwatch.windows.inputs import AssignedPartitions, Commits, EndOffsets, RowNames
from lagwatch.windows.store import WindowStore
from lagwatch.windows.view import NO_END, UNKNOWN_LAG, Windows

__all__ = ["NO_END", "UNKNOWN_LAG", "AssignedPartitions", "Commits", "EndOffsets", "RowNames", "WindowStore", "Windows"]
