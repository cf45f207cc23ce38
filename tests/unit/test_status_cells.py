"""Verdicts and forecasts as table cells, each with its expected text."""

from __future__ import annotations

import pytest

from lagwatch.cli.status_cells import (
    catch_up_cell,
    lag_cell,
    retention_cell,
    status_cell,
    time_lag_cell,
    trend_cell,
)
from lagwatch.snapshot.verdicts import severity


@pytest.mark.parametrize(
    ("best", "low", "high", "expected"),
    [
        (130.0, 120.0, 150.0, "2m10s (2m..2m30s)"),
        (None, 180.0, None, ">= 3m"),  # older than anything observed
        (0.0, 0.0, 0.0, "0s"),
        (None, None, None, "?"),
        (None, None, 5.0, "<= 5s"),
    ],
)
def test_a_time_lag_has_its_bounds(best: float | None, low: float | None, high: float | None, expected: str) -> None:
    assert (
        time_lag_cell({"lag_seconds": best, "lag_seconds_low": low, "lag_seconds_high": high}, "lag_seconds")
        == expected
    )


@pytest.mark.parametrize(
    ("consume", "produce", "expected"),
    [
        (8.0, 20.0, "+12/s"), (320.0, 20.0, "-300/s"), (19.8, 20.0, "="), (0.0, 0.0, "="), (1.0, 2.5, "+1.5/s"),
        (None, None, "-"), (0.0, 12_345.0, "+12,345/s"),
    ],
)  # fmt: skip
def test_a_trend_is_what_arrives_less_what_is_read(consume: float | None, produce: float | None, expected: str) -> None:
    assert trend_cell(consume, produce) == expected


def test_when_it_has_caught_up() -> None:
    assert catch_up_cell(0, None, is_known=True) == "caught up"
    assert catch_up_cell(40, 0.0, is_known=True) == "caught up"  # on its way, not behind
    assert catch_up_cell(400, 90.0, is_known=True) == "1m30s"
    assert catch_up_cell(400, None, is_known=True) == "never at this rate"
    assert catch_up_cell(None, None, is_known=False) == "-"


def test_what_retention_does() -> None:
    assert retention_cell(10_800.0, 0) == "deletes in 3h"
    assert retention_cell(0.0, 1200) == "1,200 lost, deletes now"
    assert retention_cell(None, None) == "-"


def test_a_stale_status_is_never_plain() -> None:
    assert status_cell("OK", stale=True, age_seconds=240.0) == "OK stale 4m"
    assert status_cell(None, stale=False, age_seconds=0.0) == "-"


def test_the_worst_are_lost_messages() -> None:
    names = ["ERR", "STOP", "STALL", "REWIND", "WARN", "OK", None]
    assert sorted(names, key=severity, reverse=True) == names


def test_lags() -> None:
    assert (lag_cell(None), lag_cell(7), lag_cell(7, 2)) == ("?", "7", "7+?")
