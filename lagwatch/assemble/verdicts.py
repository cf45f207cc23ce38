"""Builds the evaluator of a cluster from its verdict settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lagwatch.config import ClusterSettings
from lagwatch.config.verdicts import VerdictOverride
from lagwatch.evaluation import Evaluator, Override, Policies, PolicySettings
from lagwatch.verdict.policy import ALL_EXTENSIONS, Extension
from lagwatch.verdict.status import Mode


def assemble_evaluator(cluster: ClusterSettings) -> Evaluator:
    """The evaluator of a cluster."""
    verdicts = cluster.verdicts
    rules = PolicySettings(
        Mode[verdicts.mode.upper()],
        verdicts.allowed_lag,
        verdicts.minimum_complete,
        _ms(verdicts.floor),
        _enabled_extensions(verdicts.disable),
        _ms(verdicts.min_distance),
        _ms(verdicts.expire),
    )
    overrides = [Override(other.groups, _overridden(rules, other)) for other in verdicts.overrides]
    return Evaluator(
        Policies(rules, overrides),
        slots=verdicts.slots,
        poll_ms=_ms(cluster.intervals.kafka),
        reads_topic=cluster.commits != "poll",
    )


def _overridden(rules: PolicySettings, other: VerdictOverride) -> PolicySettings:
    given: dict[str, Any] = {
        "mode": Mode[other.mode.upper()] if other.mode else None,
        "allowed_lag": other.allowed_lag,
        "minimum_complete": other.minimum_complete,
        "floor_ms": None if other.floor is None else _ms(other.floor),
        "extensions": None if other.disable is None else _enabled_extensions(other.disable),
    }
    return replace(rules, **{name: value for name, value in given.items() if value is not None})


def _enabled_extensions(disabled: Iterable[str]) -> Extension:
    """All extensions except these."""
    extensions = ALL_EXTENSIONS
    for name in disabled:
        extensions &= ~Extension[name.upper()]
    return extensions


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
