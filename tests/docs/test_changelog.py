"""The changelog has Keep a Changelog's sections, each once and in one order."""

from __future__ import annotations

import re
from pathlib import Path

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
ORDER = ["Security", "Removed", "Deprecated", "Added", "Changed", "Fixed"]


def test_every_release_has_known_sections_in_order() -> None:
    releases = re.split(r"(?m)^## ", CHANGELOG)[1:]
    assert releases[0].startswith("Unreleased\n")
    for release in releases:
        sections = re.findall(r"(?m)^### (.*)$", release)
        assert sections
        assert sections == [name for name in ORDER if name in sections]


def test_every_section_has_entries_and_nothing_else() -> None:
    for section in re.split(r"(?m)^### .*\n", CHANGELOG)[1:]:
        entries = re.split(r"\n\n", re.split(r"(?m)^## ", section)[0].strip())
        for entry in entries:
            assert re.fullmatch(r"- \S.*\.(\n  \S.*\.)*", entry), entry
