"""Writes the generated files: each dashboard as JSON, and the README with a table of panels per dashboard."""

from __future__ import annotations

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.generator.agent import agent
from grafana.generator.boards import Board
from grafana.generator.brokers import brokers
from grafana.generator.consumer_group import consumer_group
from grafana.generator.overview import overview
from grafana.generator.topic import topic

FOLDER = Path(__file__).parent.parent
_BEGIN, _END = "<!-- panels: made by python -m grafana.generator -->", "<!-- panels: end -->"


def boards() -> list[Board]:
    """All dashboards, in the order an operator opens them."""
    return [overview(), consumer_group(), topic(), brokers(), agent()]


def files() -> dict[Path, str]:
    """Every generated file with its content."""
    made = boards()
    readme = FOLDER / "README.md"
    return {
        **{FOLDER / "dashboards" / f"{board.file}.json": as_json(board) for board in made},
        readme: with_panels(readme.read_text(), made),
    }


def write_all() -> list[Path]:
    """Write all files and return their paths."""
    made = files()
    for path, text in made.items():
        path.write_text(text)
    return list(made)


def as_json(board: Board) -> str:
    """The dashboard as Grafana's JSON."""
    plain = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for variable in plain["templating"]["list"]:
        for of_intervals in ("auto", "auto_min", "auto_count"):  # the SDK adds them to every variable
            variable.pop(of_intervals, None)
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def with_panels(readme: str, made: list[Board]) -> str:
    """The README with its tables of panels replaced."""
    before, _, rest = readme.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + _BEGIN + "\n\n" + "\n".join(_section(board) for board in made) + "\n" + _END + after


def _section(board: Board) -> str:
    lines = [f"### {board.title}", "", board.about, "", "| panel | what it means | when it is red |", "|---|---|---|"]
    lines += [f"| {panel.title} | {panel.means} | {panel.red} |" for row in board.rows for panel in row.panels]
    return "\n".join(lines) + "\n"
