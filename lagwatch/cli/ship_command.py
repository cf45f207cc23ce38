"""`lagwatch ship`: send a past span to InfluxDB again, from the journal or the archive."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from lagwatch.assemble.catalogue import catalogue_of
from lagwatch.assemble.sinks import influx_options
from lagwatch.batch import Batch
from lagwatch.catalogue import CONSUMER_TOPIC, REJECTED
from lagwatch.config import Settings, load_settings
from lagwatch.errors import LagwatchError, SinkError
from lagwatch.journal import JournalReader
from lagwatch.sinks.archive.sink import archived_batches
from lagwatch.sinks.influx.sink import InfluxSink

EPILOG = "Example: lagwatch ship lagwatch.yml --from 2026-11-17T02:00 --to 2026-11-17T03:30"
_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds between attempts


def ship(
    config: Annotated[Path, typer.Argument(help="the configuration file of the agent")],
    first: Annotated[
        str, typer.Option("--from", metavar="TIME", help="where the span begins, ISO 8601; UTC unless it says")
    ],
    last: Annotated[str, typer.Option("--to", metavar="TIME", help="where it ends; default: now")] = "",
    archive: Annotated[
        bool, typer.Option("--archive", help="read the archive even where the journal has the span")
    ] = False,
) -> None:
    """Send a past span to InfluxDB again. A point that is there already stays one point.

    The journal is read where it still has the span, the archive otherwise. Exit 1 when rows were refused, 2 when
    InfluxDB did not take any more.
    """
    settings = load_settings(config)
    if settings.influxdb is None:
        raise LagwatchError(f"{config}: there is no influxdb section to ship to")
    start, end = _wall_ms(first), _wall_ms(last) if last else time.time_ns() // 1_000_000
    if start >= end:
        raise LagwatchError(f"--from {first} is not before --to {last or 'now'}")
    sink = InfluxSink(influx_options(settings.influxdb), catalogue_of(settings))
    sent = refused = 0
    for batches in _polls(settings, start, end, use_archive=archive):
        took, why = _send(sink, batches)
        sent += took
        refused += bool(why)
        if why:
            typer.echo(f"refused: {why}", err=True)
        at = datetime.fromtimestamp(batches[0].at_ms / 1000, UTC).isoformat(timespec="seconds")
        typer.echo(f"\rshipped up to {at}, {sent:,} rows", err=True, nl=False)
    typer.echo("", err=True)
    typer.echo(f"{sent} rows sent, {refused} polls with refused rows")
    raise typer.Exit(1 if refused else 0)


def _polls(settings: Settings, start: int, end: int, *, use_archive: bool) -> Iterator[Sequence[Batch]]:
    """What the journal no longer has from the archive, the rest from the journal: the archive lacks the newest hour."""
    oldest = None if use_archive else _journal_begins(settings)
    middle = end if oldest is None else min(max(oldest, start), end)
    if start < middle:
        if settings.archive is None:
            if oldest is None:
                raise LagwatchError("there is no archive section, and the journal is empty or was not to be read")
            since = datetime.fromtimestamp(oldest / 1000, UTC).isoformat(timespec="seconds")
            raise LagwatchError(f"the journal begins at {since}, later than the span, and there is no archive section")
        for table in catalogue_of(settings):
            if table not in (REJECTED, CONSUMER_TOPIC):
                for batch in archived_batches(settings.archive.url, table, start, middle):
                    yield [batch]
    if middle < end:
        for poll in JournalReader(settings.journal.path).tail():
            batches = [batch for batch in poll.batches if middle <= batch.at_ms < end and batch.table != REJECTED.name]
            if batches:
                yield batches


def _journal_begins(settings: Settings) -> int | None:
    """None for a journal that is empty, or not there where an archive is."""
    if settings.archive is not None and not settings.journal.path.exists():
        return None
    return JournalReader(settings.journal.path).stats().oldest_ms


def _send(sink: InfluxSink, batches: Sequence[Batch]) -> tuple[int, str]:
    """How many rows were sent, and why some were refused. Raises SinkError when InfluxDB takes nothing any more."""
    why = _refused(sink, batches)
    if not why:
        return sum(len(batch) for batch in batches), ""
    if len(batches) == 1:
        return 0, why
    results = [_send(sink, [batch]) for batch in batches]  # what is refused of one table must not hold up the others
    return sum(sent for sent, _ in results), why


def _refused(sink: InfluxSink, batches: Sequence[Batch]) -> str:
    """Why InfluxDB does not take these, empty when it does. Raises SinkError when it does not answer any more."""
    for wait in (*_WAITS, None):
        try:
            sink.write(0, batches)
        except SinkError as error:
            if not error.retriable:
                return str(error)
            if wait is None:
                raise
            time.sleep(min(error.retry_after_seconds or wait, 60))
        else:
            break
    return ""


def _wall_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise LagwatchError(f'"{text}" is not a time (try 2026-11-17T02:00 or 2026-11-17T02:00+01:00)') from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
