"""The sliding windows of every (group, topic, partition): commits and ends of partitions in, columns for the rules out.

`WindowStore` keeps them by Burrow's storage rules, `Windows` is what the rules take.
"""

from lagwatch.windows.inputs import Commits, EndOffsets, Owned, RowNames
from lagwatch.windows.store import WindowStore
from lagwatch.windows.view import NO_END, UNKNOWN_LAG, Windows

__all__ = ["NO_END", "UNKNOWN_LAG", "Commits", "EndOffsets", "Owned", "RowNames", "WindowStore", "Windows"]
