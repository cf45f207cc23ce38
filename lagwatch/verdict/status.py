"""Statuses and rule numbers; statuses have Burrow's numbers and spelling."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The status of a partition or a group.

    By Burrow's rules a partition is OK, WARN, STOP, STALL or REWIND, and a group NOTFOUND, OK, WARN or ERR. By lagwatch's
    rules a partition that lost messages is ERR, and a group has the status of its worst partition.
    """

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


# By lagwatch's rules: lost messages are the worst, then a consumer that is gone, one that is stuck, one that went back.
WORST_FIRST = (Status.ERR, Status.STOP, Status.STALL, Status.REWIND, Status.WARN, Status.OK)
SEVERITY = {Status.NOTFOUND: 0} | {status: place for place, status in enumerate(reversed(WORST_FIRST), 1)}


class VerdictRule(IntEnum):
    """Names for the numbers of rules that code refers to; the rules themselves are in `rules.py`.

    1 to 7 are Burrow's rules in their order. Numbers are stored in `consumer_lag.rule` and never reused.
    """

    NOTHING_COMMITTED = 0
    CAUGHT_UP = 1
    SILENT = 2
    REWOUND = 3
    HAD_NO_LAG = 4
    STALLED = 5
    ONLY_GROWS = 6
    MOVES = 7
    INCOMPLETE = 8
    # lagwatch only:
    ABANDONED = 9
    LOST = 10
    LOST_AND_GONE = 11
    ONLY_MARKERS = 12
    MEMBERS_GONE = 13
    FALLS_BEHIND = 14
    NEVER_MOVED = 15


class Mode(IntEnum):
    """Whose rules evaluate a partition."""

    BURROW = 0
    LAGWATCH = 1
