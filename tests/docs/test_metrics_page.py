"""docs/metrics.md is what the catalogue says."""

from __future__ import annotations

from pathlib import Path

from lagwatch.catalogue import BUILT_IN
from lagwatch.catalogue.reference import _SERIES, render


def test_the_page_is_made_from_the_catalogue() -> None:
    page = Path(__file__).parents[2] / "docs/metrics.md"
    assert page.read_text() == render(), "run: python -m lagwatch.catalogue.reference > docs/metrics.md"


def test_the_page_says_how_many_series_each_measurement_makes() -> None:
    assert _SERIES.keys() == {table.name for table in BUILT_IN} - {"rejected"}
