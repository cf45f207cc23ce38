"""`lagwatch classify`: evaluates windows from standard input as Burrow does, one JSON line for each."""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Annotated, Any, BinaryIO

import typer

from lagwatch.cli import output
from lagwatch.cli.classify_input import (
    BadLineError,
    ClassifySettings,
    GroupHistory,
    Window,
    read_group,
    read_history,
    read_object,
    read_settings,
    read_window,
)
from lagwatch.cli.classify_replay import storage_verdicts
from lagwatch.cli.classify_results import ClassifyResult, group_verdicts, partition_verdicts

EPILOG = "Example: lagwatch classify --mode partition < windows.jsonl"

_BATCH_BYTES = 4 * 2**20
_BATCH_SLOTS = 2**20  # one matrix holds windows of all widths: bounds what a very wide one costs


class LineKind(Enum):
    """The content of a line."""

    PARTITION = "partition"
    GROUP = "group"
    STORAGE = "storage"


_READ: dict[LineKind, Callable[[dict[str, Any]], Any]] = {
    LineKind.PARTITION: read_window,
    LineKind.GROUP: read_group,
    LineKind.STORAGE: read_history,
}
_EVALUATE: dict[LineKind, Callable[[Sequence[tuple[ClassifySettings, Any]]], list[ClassifyResult]]] = {
    LineKind.PARTITION: partition_verdicts,
    LineKind.GROUP: group_verdicts,
    LineKind.STORAGE: storage_verdicts,
}


def classify(
    mode: Annotated[
        LineKind,
        typer.Option(help="what a line is: the window of a partition, a group, or a group's history of events"),
    ] = LineKind.PARTITION,
) -> None:
    """Evaluate windows from standard input as Burrow does.

    Reads JSON lines and prints one verdict a line, in order, with the reason. A line's `id` is copied to
    its verdict. A bad line is reported on standard error with its number, and skipped. Exit 1 if a line was bad, 2 if no
    line could be evaluated.
    """
    evaluated = bad = 0
    for lines in _batches(sys.stdin.buffer):
        given: list[tuple[ClassifySettings, Any]] = []
        ids: list[dict[str, Any]] = []
        for number, line in lines:
            try:
                data = read_object(line)
                given.append((read_settings(data), _READ[mode](data)))
                ids.append({"id": data["id"]} if "id" in data else {})
            except BadLineError as error:
                bad += 1
                output.warn(f"lagwatch: line {number}: {error}")
        for portion in _portions(given):
            results = _EVALUATE[mode](given[portion])
            named = ({**name, **result} for name, result in zip(ids[portion], results, strict=True))
            output.print_json_lines(named)
        evaluated += len(given)
    if not evaluated:
        output.warn("lagwatch: no line of standard input could be evaluated")
        raise typer.Exit(output.FAILED)
    raise typer.Exit(output.PROBLEM if bad else output.OK)


def _batches(stream: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Numbered lines, as many at a time as are available: immediate for a person who types, fast for a file."""
    number, rest = 0, b""
    while data := _available(stream):
        *lines, rest = (rest + data).split(b"\n")
        yield _numbered(lines, number)
        number += len(lines)
    yield _numbered([rest], number)


def _numbered(lines: Sequence[bytes], before: int) -> list[tuple[int, bytes]]:
    return [(number, line) for number, line in enumerate(lines, before + 1) if line.strip()]


def _available(stream: BinaryIO) -> bytes:
    """Wait for the first bytes only; a pipe returns 64 KiB at a time, so read on while it has more."""
    if not isinstance(stream, io.BufferedReader):
        return stream.read()
    data = stream.read1(_BATCH_BYTES)
    parts, size = [data], len(data)
    while data and size < _BATCH_BYTES and select.select([stream], [], [], 0)[0]:
        data = stream.read1(_BATCH_BYTES)
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def _portions(given: Sequence[tuple[ClassifySettings, Any]]) -> Iterator[slice]:
    """Slices that keep the matrices small."""
    first = rows = widest = 0
    for at, (_, line) in enumerate(given):
        widths = _widths(line)
        rows, widest = rows + len(widths), max([widest, *widths])
        if rows * widest > _BATCH_SLOTS and at > first:
            yield slice(first, at)
            first, rows, widest = at, len(widths), max(widths, default=0)
    if given:
        yield slice(first, len(given))


def _widths(line: object) -> list[int]:
    """The row width that each window of the line needs; histories need none before their replay."""
    windows = [line] if isinstance(line, Window) else []
    if isinstance(line, GroupHistory):
        windows = [window for _, _, window in line.partitions or ()]
    return [max(window.width, len(window.ends)) for window in windows]
