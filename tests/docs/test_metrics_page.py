"""docs/metrics.md is generated from the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

from lagwatch.catalogue import BUILT_IN
from lagwatch.catalogue.reference import render


def test_the_page_is_made_from_the_catalogue() -> None:
    page = Path(__file__).parents[2] / "docs/metrics.md"
    assert page.read_text() == render(), "run: python -m lagwatch.catalogue.reference > docs/metrics.md"


def test_the_page_shows_how_many_series_each_measurement_has() -> None:
    rows = render().partition("## How many series")[2].partition("\n## ")[0].splitlines()
    names = [row.split(" | ")[0].removeprefix("| ") for row in rows if re.search(r"\d \|$", row)]
    assert names == [table.name for table in BUILT_IN if table.name != "rejected"]
    assert "| source | 7 collectors, 5 of them also with every broker; JMX and sinks come on top | 22 | 37 |" in rows
    assert "| consumer_lag | groups x the partitions each commits to | 3,750 | 75,000 |" in rows


def test_meanings_are_sentences() -> None:
    meanings = [table.meaning for table in BUILT_IN]
    meanings += [tag.meaning for table in BUILT_IN for tag in table.tags]
    meanings += [field.meaning for table in BUILT_IN for field in table.fields]
    assert [meaning for meaning in meanings if not re.fullmatch(r"[A-Z0-9].*([^. ]\.| \.\.\.)", meaning)] == []
