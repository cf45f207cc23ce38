"""docs/verdicts.md has every status, the table of rules, every extension and every field of the JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lagwatch.config import parse_settings
from lagwatch.snapshot.verdicts import GROUP_FIELDS
from lagwatch.verdict.lagwatch_rules import GAPS, MAX_MARKERS, NEVER_MOVED_MS, UNKNOWN_RHYTHM_MS
from lagwatch.verdict.policy import DEFAULT_FLOOR_MS
from lagwatch.verdict.reference import rule_table
from lagwatch.verdict.rules import EXTENSION_NAMES
from lagwatch.verdict.status import WORST_FIRST

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def test_the_table_of_rules_is_that_of_the_code() -> None:
    assert f"\n{rule_table()}\n" in PAGE, "replace the table by what this prints: python -m lagwatch.verdict.reference"


@pytest.mark.parametrize("extension", EXTENSION_NAMES)
def test_every_extension_has_its_row(extension: str) -> None:
    assert f"\n| `{extension}` | " in PAGE


@pytest.mark.parametrize("status", [status.name for status in WORST_FIRST])
def test_every_status_says_what_to_do(status: str) -> None:
    assert f"\n| {status} | " in PAGE


def test_the_numbers_are_those_of_the_code() -> None:
    numbers = (
        f"{DEFAULT_FLOOR_MS // 1000} s", str(GAPS), f"{UNKNOWN_RHYTHM_MS // 1000} s", f"{NEVER_MOVED_MS // 1000} s",
        str(MAX_MARKERS),
    )  # fmt: skip
    for number in numbers:
        assert f"\n| {number} | " in PAGE


def test_the_fields_of_the_json_are_named() -> None:
    section = PAGE.partition("### JSON")[2]
    elsewhere = {"status_text", "partitions", "max_lag_seconds_low", "max_lag_seconds_high"}
    assert [name for name in GROUP_FIELDS if name not in elsewhere and f"`{name}`" not in section] == []


def test_the_example_loads() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert parse_settings(text, "verdicts.md").clusters[0].verdicts.overrides[0].mode == "burrow"
