"""Formats verdicts and forecasts as table cells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagwatch.text import duration_text
from lagwatch.verdict.status import Status

NOTHING, UNKNOWN = "-", "?"
_EVEN = 0.05  # rates that differ by a smaller share count as equal

_RED, _YELLOW = {Status.ERR, Status.STOP, Status.STALL}, {Status.REWIND, Status.WARN}


def status_colour(status: str | None, *, stale: bool = False) -> str | None:
    """Red needs action now, yellow attention: a stale status is yellow. None for OK."""
    if stale or (status and Status[status] in _YELLOW):
        return "yellow"
    return "red" if status and Status[status] in _RED else None


def status_cell(status: str | None, *, stale: bool, age_seconds: float, unsure: bool = False) -> str:
    """The status; a stale one always with its age."""
    text = (status or NOTHING) + ("?" if unsure else "")
    return f"{text} stale {duration_text(age_seconds)}" if stale else text


def time_lag_cell(row: Mapping[str, Any], prefix: str) -> str:
    """`2m10s (2m..2m30s)`; `>= 3m` when the oldest unread message is older than all recorded log ends."""
    best, low, high = (row.get(f"{prefix}{bound}") for bound in ("", "_low", "_high"))
    if high is None:
        return UNKNOWN if low is None else f">= {duration_text(low)}"
    if low is None:
        return f"<= {duration_text(high)}"
    best = high if best is None else best
    bounds = (duration_text(low), duration_text(high))
    return (
        duration_text(best) if set(bounds) == {duration_text(best)} else f"{duration_text(best)} ({'..'.join(bounds)})"
    )


def trend_cell(consume: float | None, produce: float | None) -> str:
    """Growth of the lag a second: `+12/s`, `-300/s`, or `=`."""
    if consume is None or produce is None:
        return NOTHING
    grows = produce - consume
    if abs(grows) <= _EVEN * max(produce, consume) or abs(grows) < 0.05:
        return "="
    return f"{grows:+,.0f}/s" if abs(grows) >= 10 else f"{grows:+.1f}/s"


def catch_up_cell(lag: int | None, seconds: float | None, *, is_known: bool) -> str:
    """Time until the lag is gone at the present rates."""
    if not is_known:
        return NOTHING
    if lag == 0 or seconds == 0:
        return "caught up"
    return "never at this rate" if seconds is None else duration_text(seconds)


def retention_cell(loss_seconds: float | None, lost: int | None) -> str:
    """When retention deletes unread messages, and how many it already deleted."""
    gone = f"{lost:,} lost" if lost else ""
    soon = (
        ""
        if loss_seconds is None
        else "deletes now"
        if loss_seconds < 1
        else f"deletes in {duration_text(loss_seconds)}"
    )
    return ", ".join(filter(None, (gone, soon))) or NOTHING


def lag_cell(lag: int | None, unknown_partitions: int = 0) -> str:
    """A lag; `+?` when it does not cover all partitions."""
    if lag is None:
        return UNKNOWN
    return f"{lag}+?" if unknown_partitions else str(lag)
