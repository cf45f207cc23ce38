"""The colours of statuses and thresholds, the same on every dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import (
    DashboardRangeMapOptions,
    DashboardSpecialValueMapOptions,
    RangeMap,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)

from lagwatch.verdict.status import Status

GOOD, WATCH, BAD = "#37872D", "#E0B400", "#C4162A"
STOPPED, STALLED, REWOUND = "#7A0F1F", "#FA6400", "#8F3BB8"
STALE, UNKNOWN, PLAIN, NONE_OF_THESE = "#5F6B7A", "#A7AEB8", "#8AB8FF", "#2C3235"

_COLOURS = {
    Status.NOTFOUND: UNKNOWN,
    Status.OK: GOOD,
    Status.WARN: WATCH,
    Status.ERR: BAD,
    Status.STOP: STOPPED,
    Status.STALL: STALLED,
    Status.REWIND: REWOUND,
}
STATUS = {int(status): (status.name, _COLOURS[status]) for status in Status}
STALE_ADDS = 10
"""Added to the number of a stale status: the last verdict is still displayed, but never in its own colour."""

NOT_KNOWN_NOW = -1
"""The value of a number that is stale."""


def status_mappings() -> list[ValueMapping]:
    """Status numbers as names in their colours; stale ones in the colour of STALE."""
    fresh = {str(code): ValueMappingResult(text=name, color=colour) for code, (name, colour) in STATUS.items()}
    stale = {
        str(code + STALE_ADDS): ValueMappingResult(text=f"STALE, was {name}", color=STALE)
        for code, (name, _) in STATUS.items()
    }
    return [ValueMap(options=fresh | stale)]


def stale_mapping() -> list[ValueMapping]:
    """A stale number reads STALE; null is a dash."""
    return [
        ValueMap(options={str(NOT_KNOWN_NOW): ValueMappingResult(text="STALE", color=STALE)}),
        SpecialValueMap(
            options=DashboardSpecialValueMapOptions(
                match=SpecialValueMatch.NULL_AND_NAN, result=ValueMappingResult(text="-", color=UNKNOWN)
            )
        ),
    ]


def sum_mappings() -> list[ValueMapping]:
    """A sum far below zero has a stale part and reads STALE."""
    result = ValueMappingResult(text="STALE", color=STALE)
    far_below = DashboardRangeMapOptions(from_val=-1_000_000_000_000, to=NOT_KNOWN_NOW, result=result)
    return [*stale_mapping(), RangeMap(options=far_below)]


Steps = tuple[tuple[float | None, str], ...]

NO_COLOUR: Steps = ((None, PLAIN),)
ANY_IS_BAD: Steps = ((None, GOOD), (1, BAD))
ANY_IS_WATCHED: Steps = ((None, GOOD), (1, WATCH))
ONE_IS_RIGHT: Steps = ((None, BAD), (1, GOOD), (2, BAD))


def rising(watch: float, bad: float) -> Steps:
    """Thresholds where more is worse."""
    return ((None, GOOD), (watch, WATCH), (bad, BAD))


def falling(bad: float, watch: float) -> Steps:
    """Thresholds where less is worse."""
    return ((None, BAD), (bad, WATCH), (watch, GOOD))


def thresholds(steps: Steps) -> list[Threshold]:
    """The thresholds in the SDK's type."""
    return [Threshold(value=value, color=colour) for value, colour in steps]
