"""Prints the reports of `lag` and `status`: once, or repeatedly for --watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lagwatch.cli import output

T = TypeVar("T")
_MARGIN_LINES = 4  # headline, table header, "... and N more", and the line of the cursor


class Report(Protocol):
    """What a command found, in every form it can be printed."""

    def headline(self) -> str:
        """One line of totals."""

    def lines(self, width: int | None, most: int | None = None) -> list[str]:
        """The table, cut to `width` columns and `most` rows."""

    def notes(self) -> list[str]:
        """What is stale, incomplete or missing."""

    def document(self) -> dict[str, Any]:
        """The JSON document."""


def repeat(fetch: Callable[[], T], every_seconds: float) -> Iterator[T]:
    """The result of `fetch` at a fixed interval, without end."""
    while True:
        started = time.monotonic()
        yield fetch()
        time.sleep(max(0.0, started + every_seconds - time.monotonic()))


def print_report(report: Report, *, as_json: bool) -> None:
    """Print a report once."""
    if as_json:
        output.print_json(report.document())
    else:
        output.print_lines(report.lines(output.terminal_width()))
    output.print_notes(report.notes(), as_json=as_json)


def watch_reports(reports: Iterator[Report], *, as_json: bool) -> None:
    """Print each report until Ctrl-C: in place on a terminal, else one after the other."""
    if as_json:
        for report in reports:
            output.print_json(report.document(), compact=True)
    elif not output.on_terminal():
        for report in reports:
            output.print_lines([report.headline(), *report.lines(None), *report.notes(), ""])
    else:
        console = Console()
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            for report in reports:
                text = "\n".join(_screen(report, console.width, console.height))
                live.update(Text.from_ansi(text, no_wrap=True, overflow="crop"), refresh=True)


def _screen(report: Report, width: int, height: int) -> list[str]:
    notes = [output.paint(note, "yellow") for note in report.notes()]
    room = max(1, height - len(notes) - _MARGIN_LINES)
    return [report.headline(), *report.lines(width, room), *notes]
