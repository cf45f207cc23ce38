"""Extracts the queries of dashboards and interpolates variables like Grafana does.

It follows Grafana's sources: the browser interpolates `${name:regex}` (escapeRegex), the server `v.*`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "grafana"
_SPECIAL = re.compile(r"[\\^$*+?.()|\[\]{}/]")
_VARIABLE = re.compile(r"\$\{(\w+):regex\}")
EVERYTHING = object()
"""The option "All" of a variable: Grafana inserts its `allValue` unchanged."""

Variable = str | list[str] | object


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its location."""

    board: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.board}: {self.place}"


@dataclass(frozen=True, slots=True)
class View:
    """The time range as RFC 3339, the window period and the bucket."""

    start: str
    stop: str
    window: str
    bucket: str


def dashboards() -> dict[str, dict[str, Any]]:
    """The committed dashboards by name."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "dashboards").glob("*.json"))}
    if not found:
        pytest.fail("there are no dashboards")
    return found


def queries(name: str, dashboard: Mapping[str, Any]) -> Iterator[Query]:
    """Every query of variables, annotations and panels."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield Query(name, f"variable {variable['name']}", variable["query"]["query"])
    for annotation in dashboard["annotations"]["list"]:
        yield Query(name, f"annotation {annotation['name']}", annotation["target"]["query"])
    for panel in dashboard["panels"]:
        for target in panel.get("targets") or []:
            yield Query(name, f"panel {panel['title']} {target['refId']}", target["query"])


def filled_in(text: str, variables: Mapping[str, Variable], view: View) -> str:
    """The query that InfluxDB receives."""
    otherwise = re.search(r"\$[\w{]|\[\[", _VARIABLE.sub("", text))
    if otherwise:
        pytest.fail(f"a variable that is not put in as a regular expression: {text[otherwise.start() :][:40]}")
    text = _VARIABLE.sub(lambda match: regex_format(variables[match[1]]), text)
    macros = {
        "timeRangeStart": view.start,
        "timeRangeStop": view.stop,
        "windowPeriod": view.window,
        "defaultBucket": f'"{view.bucket}"',
    }
    for found, name in set(re.findall(r"([a-zA-Z]+\.([a-zA-Z]+))", text)):
        if name in macros:
            text = text.replace(found, macros[name])
    return text


def regex_format(choice: Variable) -> str:
    """The interpolation of `${name:regex}`."""
    if choice is EVERYTHING:
        return ".*"
    if isinstance(choice, str):
        return _SPECIAL.sub(lambda match: "\\" + match[0], choice)
    escaped = [regex_format(one) for one in choice]  # type: ignore[attr-defined]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
