"""The settings of verdicts turned into the judge of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lagwatch.config import Cluster, VerdictOverride
from lagwatch.judging import Judge, Override, Policies, Rules
from lagwatch.verdict.policy import ALL_ADDS, Adds
from lagwatch.verdict.status import Mode


def wire_judge(cluster: Cluster) -> Judge:
    """How the cluster's consumers are judged."""
    verdicts = cluster.verdicts
    rules = Rules(
        Mode[verdicts.mode.upper()],
        verdicts.allowed_lag,
        verdicts.minimum_complete,
        _ms(verdicts.floor),
        _adds(verdicts.without),
        _ms(verdicts.min_distance),
        _ms(verdicts.expire),
    )
    overrides = [Override(other.groups, _overridden(rules, other)) for other in verdicts.overrides]
    return Judge(
        Policies(rules, overrides),
        slots=verdicts.slots,
        poll_ms=_ms(cluster.intervals.kafka),
        tailing=cluster.commits == "topic",
    )


def _overridden(rules: Rules, other: VerdictOverride) -> Rules:
    given: dict[str, Any] = {
        "mode": Mode[other.mode.upper()] if other.mode else None,
        "allowed_lag": other.allowed_lag,
        "minimum_complete": other.minimum_complete,
        "floor_ms": None if other.floor is None else _ms(other.floor),
        "adds": None if other.without is None else _adds(other.without),
    }
    return replace(rules, **{name: value for name, value in given.items() if value is not None})


def _adds(without: Iterable[str]) -> Adds:
    """All additions but these."""
    adds = ALL_ADDS
    for name in without:
        adds &= ~Adds[name.upper()]
    return adds


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
