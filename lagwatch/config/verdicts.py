"""How consumers are judged: the settings of `clusters[].verdicts`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, Strict

from lagwatch.config.section import Section
from lagwatch.config.values import Duration, Regex, between

_Mode = Literal["lagwatch", "burrow"]
_Lag = Annotated[int, Strict(), Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Addition = Literal["patience", "members_gone", "trend", "every_rewind", "remainder", "abandoned", "loss"]


class VerdictOverride(Section):
    """Other settings for some groups; what is left out is as for all."""

    groups: Regex = Field(description="regular expression that matches all of a name", examples=["etl-.*"])
    mode: _Mode | None = Field(None, description="by whose rules they are judged", examples=["burrow"])
    allowed_lag: _Lag | None = Field(None, description="messages that are as good as none to them", examples=[100])
    minimum_complete: _Share | None = Field(None, description="from which share on they are judged", examples=[0.5])
    floor: Annotated[Duration, between("0s", "1d")] | None = Field(
        None, description="patience with them at the least", examples=["5m"]
    )
    without: tuple[_Addition, ...] | None = Field(None, description="additions they do without", examples=[["trend"]])


class VerdictSettings(Section):
    """How consumers are judged (docs/verdicts.md)."""

    mode: _Mode = Field("lagwatch", description="lagwatch's rules, or exactly Burrow's")
    allowed_lag: _Lag = Field(0, description="messages that are as good as none")
    minimum_complete: _Share = Field(0.0, description="a window filled to a lower share is not judged, 0 to 1")
    slots: Annotated[int, Strict(), Field(ge=2, le=100)] = Field(10, description="commits a window holds")
    floor: Annotated[Duration, between("0s", "1d")] = Field(
        timedelta(seconds=60), description="nobody is called stopped or stalled sooner"
    )
    without: tuple[_Addition, ...] = Field(
        (), description="additions of lagwatch's rules to do without", examples=[["trend"]]
    )
    min_distance: Annotated[Duration, between("0s", "1h")] = Field(
        timedelta(0), description="mode burrow: commits closer than this share a slot"
    )
    expire: Annotated[Duration, between("1m", "52w")] = Field(
        timedelta(days=7), description="older commits are not taken from the offsets topic"
    )
    overrides: tuple[VerdictOverride, ...] = Field(
        (), description="other settings for some groups; the first that matches counts"
    )
