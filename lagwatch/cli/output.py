"""How every command speaks: data on stdout, talk on stderr, colour only for people, one way to lay out a table."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import typer
from rich.cells import cell_len, set_cell_size

from lagwatch.text import one_line

OK, PROBLEM, FAILED = 0, 1, 2

_GAP = "  "
_SHRUNK = 14  # a name cut below this says nothing any more
_CUT = "…"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column. `shrinks` lets a terminal too narrow for the table cut its cells; a pipe always gets all of them."""

    name: str
    right: bool = False
    shrinks: bool = False


def table_lines(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Header and rows, aligned by what they take on a screen; cut to `width` as far as the columns may shrink."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max([_width(column.name), *(_width(row[at]) for row in cells)]) for at, column in enumerate(columns)]
    if width is not None:
        widths = _shrunk(columns, widths, width - len(_GAP) * (len(columns) - 1))
    lines = [[column.name for column in columns], *cells]
    return [
        _GAP.join(_padded(cell, widths[at], columns[at]) for at, cell in enumerate(line)).rstrip() for line in lines
    ]


def _shrunk(columns: Sequence[TableColumn], widths: Sequence[int], room: int) -> list[int]:
    """The widest of the columns that may shrink gives way first."""
    widths = list(widths)
    while sum(widths) > room:
        candidates = [at for at, column in enumerate(columns) if column.shrinks and widths[at] > _SHRUNK]
        if not candidates:
            break
        widths[max(candidates, key=lambda at: widths[at])] -= 1
    return widths


def _padded(cell: str, width: int, column: TableColumn) -> str:
    if _width(cell) > width:
        return set_cell_size(cell, width - 1) + _CUT
    blanks = " " * (width - _width(cell))
    return blanks + cell if column.right else cell + blanks


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)  # a million ASCII cells are nearly all there is


def on_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout.isatty()


def terminal_width() -> int | None:
    """The width tables are cut to: none when they go to a file or another program."""
    return shutil.get_terminal_size().columns if on_terminal() else None


def paint(text: str, colour: str, *, bold: bool = False) -> str:
    """Coloured, but only for a person who has not asked for none (https://no-color.org)."""
    if not on_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return typer.style(text, fg=colour, bold=bold or None)


def heading(text: str) -> str:
    """The first line of a table."""
    return paint(text, "bright_black")


def print_lines(lines: Sequence[str]) -> None:
    """Data, to stdout, in one write: a flush a line would take seconds for a large cluster."""
    if lines:
        typer.echo("\n".join(lines))


def print_json(document: Any, *, one_to_a_line: bool = False) -> None:
    """Data as JSON. ASCII, so that it parses whatever the locale is."""
    typer.echo(json.dumps(document) if one_to_a_line else json.dumps(document, indent=2))


def warn(line: str) -> None:
    """Talk, to stderr."""
    typer.echo(line, err=True)


def print_notes(notes: Sequence[str], *, as_json: bool) -> None:
    """What a reader of the data must know of it, such as what could not be asked.

    On a terminal once, below the data. Otherwise on stderr, and below a table as well: a file must not look complete
    when it is not. JSON carries them in its own fields.
    """
    if not as_json:
        print_lines([paint(note, "yellow") for note in notes])
    if as_json or not on_terminal():
        for note in notes:
            warn(note)


def more(left_out: int, what: str) -> list[str]:
    """`... and 37 more partitions`, or nothing."""
    return [f"... and {left_out:,} more {what}{'' if left_out == 1 else 's'}"] if left_out > 0 else []


def clock_time(at_ms: int) -> str:
    """A time as people read it, in UTC to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
