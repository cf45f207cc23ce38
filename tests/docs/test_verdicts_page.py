"""docs/verdicts.md knows every status, every rule by its number, every addition and every field of the JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from lagwatch.cli.status_rows import GROUP_FIELDS
from lagwatch.config import parse_settings
from lagwatch.config.verdicts import VerdictSettings
from lagwatch.verdict.burrow_rules import STATUS_OF_RULE
from lagwatch.verdict.lagwatch_rules import GAPS, LARGEST_REMAINDER, NEVER_MOVED_MS, UNKNOWN_RHYTHM_MS
from lagwatch.verdict.policy import DEFAULT_FLOOR_MS, Extension
from lagwatch.verdict.status import Status, VerdictRule

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


@pytest.mark.parametrize("rule", VerdictRule)
def test_every_rule_stands_with_its_number_and_status(rule: VerdictRule) -> None:
    name, status = rule.name.lower().replace("_", " "), Status(STATUS_OF_RULE[rule]).name
    assert f"| {int(rule)} | {name} | {status} | " in PAGE


@pytest.mark.parametrize("addition", [add.name.lower() for add in Extension if add.name])
def test_every_addition_has_its_row_and_its_switch(addition: str) -> None:
    assert f"\n| `{addition}` | " in PAGE
    [of_names] = get_args(VerdictSettings.model_fields["without"].annotation)[:1]
    assert addition in get_args(of_names)


@pytest.mark.parametrize("status", [status.name for status in Status if status is not Status.NOTFOUND])
def test_every_status_says_what_to_do(status: str) -> None:
    assert f"\n| {status} | " in PAGE


def test_the_numbers_are_those_of_the_code() -> None:
    numbers = (
        f"{DEFAULT_FLOOR_MS // 1000} s", str(GAPS), f"{UNKNOWN_RHYTHM_MS // 1000} s", f"{NEVER_MOVED_MS // 1000} s",
        str(LARGEST_REMAINDER),
    )  # fmt: skip
    for number in numbers:
        assert f"\n| {number} | " in PAGE


def test_the_fields_of_the_json_are_named() -> None:
    told = PAGE.partition("### JSON")[2]
    elsewhere = {"status_text", "partitions", "max_lag_seconds_low", "max_lag_seconds_high"}
    assert [name for name in GROUP_FIELDS if name not in elsewhere and f"`{name}`" not in told] == []


def test_the_example_loads() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert parse_settings(text, "verdicts.md").clusters[0].verdicts.overrides[0].mode == "burrow"
