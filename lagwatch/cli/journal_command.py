"""`lagwatch journal stats|tail|rejected`: prints the contents of a journal, also while an agent writes it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lagwatch.batch import Batch
from lagwatch.catalogue import BUILT_IN, REJECTED
from lagwatch.cli import output
from lagwatch.cli.options import Json
from lagwatch.cli.output import TableColumn
from lagwatch.clock import SystemClock
from lagwatch.config import load_settings
from lagwatch.errors import LagwatchError
from lagwatch.journal import JournalReader, JournalStats, Poll
from lagwatch.snapshot.names import pick_cluster
from lagwatch.text import counted, duration_text, iso_time, one_line, size_text

_FOLLOW_SECONDS = 0.5

_File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="the journal file; or give --config")]
_Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="configuration file of the agent: its journal.path is read"),
]


def build_journal_app() -> typer.Typer:
    """The sub-commands."""
    app = typer.Typer(
        help="Print the contents of an agent's journal.",
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )
    app.command(epilog="Example: lagwatch journal stats lagwatch-data/journal.db")(stats)
    app.command(epilog="Example: lagwatch journal tail --config lagwatch.yml --table consumer_lag --follow")(tail)
    app.command(epilog="Example: lagwatch journal rejected --config lagwatch.yml --json")(rejected)
    return app


def rejected(file: _File = None, config: _Config = None, as_json: Json = False) -> None:
    """Print the rows that sinks rejected, with the reasons. Exit 1 if there are any."""
    found = [
        {"cluster": batch.cluster, "set_aside_ms": batch.at_ms, **row}
        for poll in _reader(file, config).tail(tables=[REJECTED.name])
        for batch in poll.batches
        for row in batch.rows.to_pylist()
    ]
    if as_json:
        output.print_json(found)
    else:
        output.print_lines(
            [
                f"{r['sink']} {r['cluster'] or '-'} {r['table']}: {one_line(r['reason'])}: {one_line(r['row'])}"
                for r in found
            ]
        )
        output.warn(f"{counted(len(found), 'row')} rejected")
    raise typer.Exit(output.PROBLEM if found else output.OK)


def stats(file: _File = None, config: _Config = None, as_json: Json = False) -> None:
    """Print polls, bytes by table, dropped rows and cursors. Exit 1 if the journal cannot be written."""
    found = _reader(file, config).stats()
    if as_json:
        output.print_json({**asdict(found), "path": str(found.path), "dropped_rows": found.dropped_rows})
    else:
        output.print_lines(stats_lines(found, SystemClock().wall_ms()))
    raise typer.Exit(output.PROBLEM if found.fault else output.OK)


def tail(
    file: _File = None,
    config: _Config = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="only this cluster")] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME", help="only these tables; may be repeated")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=0, metavar="N", help="start with the newest N polls")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="print new polls as they are written")] = False,
    as_json: Json = False,
) -> None:
    """Print the newest rows, one per line: time, cluster, table, values."""
    unknown = [
        name for name in table or () if name not in BUILT_IN and config is None
    ]  # a user's beans have tables too
    if unknown:
        names = ", ".join(known.name for known in BUILT_IN)
        raise typer.BadParameter(f'no table "{one_line(unknown[0])}" ({names})', param_hint="--table")
    reader = _reader(file, config)
    if cluster and not follow:  # it may be polled later
        pick_cluster(
            sorted({batch.cluster for batch in reader.newest(tables=["source"])} - {""}), cluster, str(reader.path)
        )
    polls = Polls(reader, table, [cluster] if cluster is not None else None)
    _print(polls.last(last), as_json=as_json)
    while follow:
        _print(polls.next(), as_json=as_json)
        time.sleep(_FOLLOW_SECONDS)
    if reader.corrupt_rows:
        output.warn(f"{reader.path}: {counted(reader.corrupt_rows, 'row')} left out: damaged on disk")
        raise typer.Exit(output.PROBLEM)


class Polls:
    """The polls of a journal that have batches of the selected tables and clusters."""

    def __init__(self, reader: JournalReader, tables: list[str] | None, clusters: list[str] | None) -> None:
        self._reader, self._tables, self._clusters = reader, tables, clusters
        self._after = reader.newest_poll()

    def last(self, count: int) -> list[Poll]:
        """The newest `count` polls, oldest first."""
        numbers = self._reader.newest_poll_numbers(count, self._tables, self._clusters)
        if not numbers:
            return []
        self._after = max(self._after, numbers[0])
        return list(self._read(numbers[-1] - 1, self._after))[-count:]

    def next(self) -> Iterator[Poll]:
        """The polls written since the last call."""
        newest = self._reader.newest_poll()
        if newest < self._after:  # the agent moved a damaged journal away and started a new one
            output.warn(f"{self._reader.path}: a new journal was started")
            self._after = 0
        yield from self._read(self._after, newest)
        self._after = newest

    def _read(self, after: int, through: int) -> Iterator[Poll]:
        while after < through:
            polls = self._reader.read(after, through_poll=through, tables=self._tables, clusters=self._clusters)
            if not polls:
                return
            yield from (poll for poll in polls if poll.batches)
            after = polls[-1].poll


def _print(polls: Any, *, as_json: bool) -> None:
    for poll in polls:
        for batch in poll.batches:
            rows = batch.rows.to_pylist()
            if as_json:
                output.print_json_lines(row_document(batch, row) for row in rows)
            else:
                output.print_lines([row_line(batch, row) for row in rows])


def row_document(batch: Batch, row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON."""
    return {"at_ms": batch.at_ms, "table": batch.table, "cluster": batch.cluster, **_rounded(row)}


def row_line(batch: Batch, row: dict[str, Any]) -> str:
    """A row as `time cluster table name=value ...`, without unknown values."""
    values = [f"{name}={_value_text(value)}" for name, value in _rounded(row).items() if value is not None]
    return " ".join([iso_time(batch.at_ms), batch.cluster or "-", batch.table, *values])


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Floats are 32 bits wide: 0.1 would print as 0.10000000149."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    text = one_line(value)
    return json.dumps(value, ensure_ascii=False) if text != value or set(text) & set(' "=') else text


def stats_lines(found: JournalStats, now_ms: int) -> list[str]:
    """Statistics of the journal as text."""
    counts = f"{counted(found.polls, 'poll')}, {counted(found.rows, 'row')}"
    lines = [f"{found.path}: {counts}, {size_text(found.bytes)}"]
    if found.oldest_ms is not None and found.newest_ms is not None:
        span = f"{output.clock_time(found.oldest_ms)} to {output.clock_time(found.newest_ms)}"
        lines.append(f"kept: {span}, the newest {_ago(now_ms - found.newest_ms)}")
    if found.fault is not None:
        since = "" if found.fault_since_ms is None else f" since {output.clock_time(found.fault_since_ms)}"
        lines.append(f"fault{since}: {found.fault}; {counted(found.pending_polls, 'poll')} pending in memory")
    dropped = ", ".join(f"{number:,} ({reason})" for reason, number in found.dropped.items() if number)
    lines.append(f"rows dropped: {dropped or 'none'}")
    age = "" if found.checkpoint_age_ms is None else f", {_ago(found.checkpoint_age_ms)}"
    lines.append("checkpoint: " + ("none" if found.checkpoint_poll is None else f"poll {found.checkpoint_poll}{age}"))
    if found.tables:
        columns = (
            TableColumn("TABLE"),
            TableColumn("BATCHES", right=True),
            TableColumn("ROWS", right=True),
            TableColumn("BYTES", right=True),
        )
        by_size = sorted(found.tables.items(), key=lambda item: -item[1].bytes)
        cells = [[name, str(t.batches), str(t.rows), size_text(t.bytes)] for name, t in by_size]
        lines += ["", *_table(columns, cells)]
    if found.cursors:
        columns = (
            TableColumn("CURSOR"),
            TableColumn("AT-POLL", right=True),
            TableColumn("LAG-POLLS", right=True),
            TableColumn("BACKFILL"),
        )
        cells = [
            [
                name,
                str(c.live),
                str(c.lag_polls),
                ", ".join(f"{first}-{through}" for first, through in c.backfill) or "-",
            ]
            for name, c in found.cursors.items()
        ]
        lines += ["", *_table(columns, cells)]
    return lines


def _table(columns: tuple[TableColumn, ...], cells: list[list[str]]) -> list[str]:
    head, *rows = output.table_lines(columns, cells, output.terminal_width())
    return [output.heading(head), *rows]


def _ago(age_ms: int) -> str:
    return f"{duration_text(max(0, age_ms) / 1000)} ago"


def _reader(file: Path | None, config: Path | None) -> JournalReader:
    if (file is None) == (config is None):
        raise typer.BadParameter("give either the journal FILE or --config", param_hint="FILE")
    path = file if file is not None else load_settings(Path(config or "")).journal.path
    if path.is_dir():
        raise LagwatchError(f"{path}: is a directory, not a journal")
    return JournalReader(path)
