"""The README names every command, links only what is there, and its configuration loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lagwatch.cli import COMMANDS
from lagwatch.config import parse_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("*/README.md")), *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"`lagwatch {command}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_configuration_of_the_readme_loads() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    settings = parse_settings(text, "README.md", env={"INFLUX_TOKEN": "x"})
    assert settings.clusters[0].bootstrap == ("kafka1:9092", "kafka2:9092")
