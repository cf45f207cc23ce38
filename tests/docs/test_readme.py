"""The README lists exactly the existing commands, options and folders; its configuration loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lagwatch.cli.app import COMMANDS, app
from lagwatch.config import parse_settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("*/README.md")), *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = [*sorted(path.parent.name for path in ROOT.glob("*/__init__.py")), "rules"]
BLOCKS = "".join(re.findall(r"(?ms)^```\w*\n(.*?)^```$", README))
CALLS = {
    call.strip()
    for call in re.findall(r"(?m)^(?:\$ )?lagwatch ([^#\n]+)", BLOCKS) + re.findall(r"`lagwatch ([^`\n]+)`", README)
}
"""Every call of lagwatch in the README, in a block or within a sentence, without its first word."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"`lagwatch {command}" in README


@pytest.mark.parametrize("call", sorted(CALLS))
def test_every_call_in_the_readme_names_commands_and_options_that_exist(call: str) -> None:
    words = call.split()
    depth = 2 if words[0] in {"config", "jmx", "journal"} else 1
    result = CliRunner().invoke(app, [*words[:depth], "--help"])
    assert result.exit_code == 0, result.output
    for option in re.findall(r"--[a-z-]+", call):
        assert re.search(rf"(?m)^  {option}\b", result.output), f"`lagwatch {' '.join(words[:depth])}` has no {option}"


def test_the_readme_shows_calls_with_options() -> None:
    """Without them the test above would pass without a check."""
    assert {"config check lagwatch.yml", "check lagwatch.yml", "run lagwatch.yml", "demo --history 7d"} <= CALLS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_readme_says_what_each_folder_is(folder: str) -> None:
    (section,) = re.findall(r"(?ms)^## What each folder is\n(.*?)^## ", README)
    assert re.search(rf"(?m)^- \[?{folder}/", section)


def test_the_configuration_of_the_readme_loads_and_is_short() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    settings = parse_settings(text, "README.md", env={"INFLUX_TOKEN": "x"})
    assert settings.clusters[0].bootstrap == ("kafka1:9092", "kafka2:9092")
    assert len(text.splitlines()) == 10


def test_the_readme_installs_what_exists() -> None:
    """No release exists: `pip install lagwatch` would fetch another package of that name, or none."""
    assert re.findall(r"pip install\b(?:.*\s)lagwatch(?:\s|$)", README) == []
    assert "dist/lagwatch-*.whl" in README
