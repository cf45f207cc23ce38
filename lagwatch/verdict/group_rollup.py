"""Rolls the verdicts on partitions up to one verdict a group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.verdict.classify import Verdicts
from lagwatch.verdict.status import SEVERITY, Status

NO_ROW = -1
_SEVERITY = np.array([SEVERITY[status] for status in Status], np.int64)


@dataclass(frozen=True, slots=True)
class GroupVerdicts:
    """The verdict on each group. `max_lag_row` and `worst_row` are rows of the partitions, NO_ROW without any."""

    status: npt.NDArray[np.uint8]
    complete: npt.NDArray[np.float32]  # the share of its partitions whose window is full
    partitions: npt.NDArray[np.int64]
    not_ok: npt.NDArray[np.int64]
    total_lag: npt.NDArray[np.int64]
    max_lag_row: npt.NDArray[np.int64]
    worst_row: npt.NDArray[np.int64]  # of equally bad ones, the one with the most lag


def roll_up(
    verdicts: Verdicts,
    current_lag: npt.NDArray[np.int64],
    group: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_],
    by_lagwatch: npt.NDArray[np.bool_] | None = None,
) -> GroupVerdicts:
    """Roll up groups 0 to len(known)-1; `group` has the group of each row, in ascending order.

    A group without partitions (its topics were deleted) is OK. One that is not `known` is NOTFOUND, complete 1.
    Groups marked in `by_lagwatch` get the status of their worst partition; in Burrow STOP, STALL and REWIND all make ERR.
    """
    groups = len(known)
    partitions = np.bincount(group, minlength=groups)
    status = np.where(known, Status.OK, Status.NOTFOUND).astype(np.uint8)
    complete = np.where(known, 0, 1).astype(np.float32)
    total = np.zeros(groups, np.int64)
    not_ok = np.zeros(groups, np.int64)
    any_there = np.flatnonzero(partitions)
    if len(any_there):
        first = np.flatnonzero(np.r_[True, np.diff(group) != 0])
        status[any_there] = np.maximum.reduceat(np.minimum(verdicts.status, Status.ERR), first)
        full = np.add.reduceat((verdicts.complete == 1).astype(np.float32), first)
        complete[any_there] = full / partitions[any_there].astype(np.float32)
        total[any_there] = np.add.reduceat(current_lag, first)
        not_ok[any_there] = np.add.reduceat((verdicts.status > Status.OK).astype(np.int64), first)
    worst = _largest_of_each(_SEVERITY[verdicts.status], current_lag, group, groups)
    if by_lagwatch is not None:
        theirs = by_lagwatch & (worst != NO_ROW)
        status[theirs] = verdicts.status[worst[theirs]]
    return GroupVerdicts(
        status=status,
        complete=complete,
        partitions=partitions,
        not_ok=not_ok,
        total_lag=total,
        max_lag_row=_largest_of_each(np.zeros(len(group), np.int64), current_lag, group, groups),
        worst_row=worst,
    )


def _largest_of_each(
    first_by: npt.NDArray[np.int64], then_by: npt.NDArray[np.int64], group: npt.NDArray[np.int64], groups: int
) -> npt.NDArray[np.int64]:
    """The row of each group that is largest by `first_by`, then by `then_by`; of ties the first."""
    rows = np.arange(len(group))
    for values in (first_by, then_by):
        of_row = group[rows]
        largest = np.full(groups, np.iinfo(np.int64).min)
        begins = np.flatnonzero(np.r_[True, of_row[1:] != of_row[:-1]]) if len(rows) else rows
        largest[of_row[begins]] = np.maximum.reduceat(values[rows], begins) if len(rows) else 0
        rows = rows[values[rows] == largest[of_row]]
    found = np.full(groups, NO_ROW, np.int64)
    found[group[rows[::-1]]] = rows[::-1]  # where a group occurs twice, numpy keeps the last
    return found
