"""The statuses, with Burrow's numbers and spelling, and the rules that lead to them."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What is said of a partition or a group.

    By Burrow's rules a partition is OK, WARN, STOP, STALL or REWIND, and a group NOTFOUND, OK, WARN or ERR. By lagwatch's
    a partition that lost messages is ERR, and a group is what its worst partition is.
    """

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class VerdictRule(IntEnum):
    """What decided a partition's status; 1 to 7 are Burrow's rules in their order."""

    NOTHING_COMMITTED = 0
    CAUGHT_UP = 1
    SILENT = 2
    REWOUND = 3
    HAD_NO_LAG = 4
    STALLED = 5
    ONLY_GROWS = 6
    MOVES = 7  # none of the others
    INCOMPLETE = 8  # too few commits to judge
    # Those of lagwatch alone:
    ABANDONED = 9
    LOST = 10
    LOST_AND_GONE = 11
    ONLY_MARKERS = 12
    MEMBERS_GONE = 13
    FALLS_BEHIND = 14
    NEVER_MOVED = 15


class Mode(IntEnum):
    """By whose rules a partition is judged."""

    BURROW = 0
    LAGWATCH = 1
