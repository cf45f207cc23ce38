"""The settings of `clusters[].verdicts`: how consumers are evaluated."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, Strict

from lagwatch.config.section import Section
from lagwatch.config.values import Duration, Regex, between
from lagwatch.verdict.rules import EXTENSION_NAMES

_Mode = Literal["lagwatch", "burrow"]
_Lag = Annotated[int, Strict(), Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
if TYPE_CHECKING:
    _Extension = str
else:
    _Extension = Literal[EXTENSION_NAMES]


class VerdictOverride(Section):
    """Other settings for some groups; a key left out keeps the cluster's value."""

    groups: Regex = Field(description="regular expression that matches the whole name", examples=["etl-.*"])
    mode: _Mode | None = Field(None, description="whose rules evaluate them", examples=["burrow"])
    allowed_lag: _Lag | None = Field(None, description="lag up to this counts as no lag", examples=[100])
    minimum_complete: _Share | None = Field(
        None, description="a window filled to a lower share is not evaluated", examples=[0.5]
    )
    floor: Annotated[Duration, between("0s", "1d")] | None = Field(
        None, description="minimum time before STOP or STALL", examples=["5m"]
    )
    disable: tuple[_Extension, ...] | None = Field(None, description="extensions to turn off", examples=[["trend"]])


class VerdictSettings(Section):
    """How consumers are evaluated (docs/verdicts.md)."""

    mode: _Mode = Field("lagwatch", description="lagwatch's rules, or exactly Burrow's")
    allowed_lag: _Lag = Field(0, description="lag up to this counts as no lag")
    minimum_complete: _Share = Field(0.0, description="a window filled to a lower share is not evaluated, 0 to 1")
    slots: Annotated[int, Strict(), Field(ge=2, le=100)] = Field(10, description="commits a window holds")
    floor: Annotated[Duration, between("0s", "1d")] = Field(
        timedelta(seconds=60), description="minimum time before STOP or STALL"
    )
    disable: tuple[_Extension, ...] = Field(
        (), description="extensions of lagwatch's rules to turn off", examples=[["trend"]]
    )
    min_distance: Annotated[Duration, between("0s", "1h")] = Field(
        timedelta(0), description="mode burrow: commits closer than this share a slot"
    )
    expire: Annotated[Duration, between("1m", "52w")] = Field(
        timedelta(days=7), description="ignore older commits in the offsets topic"
    )
    overrides: tuple[VerdictOverride, ...] = Field(
        (), description="other settings for some groups; the first match applies"
    )
