"""Output shared by all commands: data on stdout, messages on stderr, colours on a terminal, and tables."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import typer
from rich.cells import cell_len, set_cell_size

from lagwatch.text import one_line

OK, PROBLEM, FAILED = 0, 1, 2  # exit codes

_GAP = "  "
_SHRUNK = 14  # a name cut shorter than this is useless
_CUT = "…"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column. A terminal that is too narrow cuts the cells of columns with `shrinks`; a pipe gets them whole."""

    name: str
    right: bool = False
    shrinks: bool = False


def table_lines(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Header and rows, aligned by display width; cut to `width` as far as the columns may shrink."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max([_width(column.name), *(_width(row[at]) for row in cells)]) for at, column in enumerate(columns)]
    if width is not None:
        widths = _shrunk(columns, widths, width - len(_GAP) * (len(columns) - 1))
    lines = [[column.name for column in columns], *cells]
    return [
        _GAP.join(_padded(cell, widths[at], columns[at]) for at, cell in enumerate(line)).rstrip() for line in lines
    ]


def _shrunk(columns: Sequence[TableColumn], widths: Sequence[int], room: int) -> list[int]:
    """Shrinks the widest shrinkable column first."""
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
    return len(text) if text.isascii() else cell_len(text)  # ASCII is the common case, and `cell_len` is slow


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def terminal_width() -> int | None:
    """The width tables are cut to; None when stdout is a file or a pipe."""
    return shutil.get_terminal_size().columns if on_terminal() else None


def paint(text: str, colour: str, *, bold: bool = False) -> str:
    """Coloured text, on a terminal without NO_COLOR (https://no-color.org)."""
    if not on_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return typer.style(text, fg=colour, bold=bold or None)


def heading(text: str) -> str:
    """The header line of a table, dimmed."""
    return paint(text, "bright_black")


def print_lines(lines: Sequence[str]) -> None:
    """Print data to stdout in one write: a flush per line would take seconds for a large cluster."""
    if lines:
        typer.echo("\n".join(lines))


def print_json(document: Any, *, compact: bool = False) -> None:
    """Print data as JSON; `compact` on one line. ASCII only, so that it parses in any locale."""
    typer.echo(json.dumps(document, indent=None if compact else 2))


def print_json_lines(documents: Iterable[Any]) -> None:
    """Print JSON documents one per line, in one write."""
    print_lines([json.dumps(document) for document in documents])


def warn(line: str) -> None:
    """Print a message to stderr."""
    typer.echo(line, err=True)


def print_notes(notes: Sequence[str], *, as_json: bool) -> None:
    """Print what limits the data, such as failed queries.

    On a terminal once, below the data. Otherwise on stderr, and also below a table: a file must not look complete when it
    is not. JSON has its own fields for them.
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
    """A time in UTC to the second: `2026-11-17 02:00:00Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
