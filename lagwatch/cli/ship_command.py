"""`lagwatch ship`: sends a past time range to InfluxDB again, from the journal or the archive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
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
from lagwatch.protocols import Sink
from lagwatch.shipping import BackOff, RejectedRows, ShippingRate, write_poll
from lagwatch.sinks.archive.sink import archived_batches
from lagwatch.sinks.influx.sink import InfluxSink

EPILOG = "Example: lagwatch ship lagwatch.yml --from 2026-11-17T02:00 --to 2026-11-17T03:30"
_RATE = ShippingRate(longest_wait_seconds=8)
_MAX_ATTEMPTS = 5


def ship(
    config: Annotated[Path, typer.Argument(metavar="FILE", help="the configuration file of the agent")],
    first: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="start of the time range, ISO 8601, UTC unless it has an offset"),
    ],
    last: Annotated[str, typer.Option("--to", metavar="TIME", help="end of the time range; default: now")] = "",
    archive: Annotated[
        bool, typer.Option("--archive", help="read the archive even if the journal has the time range")
    ] = False,
) -> None:
    """Send a past time range to InfluxDB again. Points that exist already are overwritten with the same values.

    Reads the journal as far back as it goes, and the archive before that. Exit code 1 if InfluxDB rejected rows, 2 if it
    could not be written to.
    """
    settings = load_settings(config)
    if settings.influxdb is None:
        raise LagwatchError(f"{config}: no influxdb section; add one to ship to InfluxDB")
    start, end = _wall_ms(first), _wall_ms(last) if last else time.time_ns() // 1_000_000
    if start >= end:
        raise LagwatchError(f"--from {first} is not before --to {last or 'now'}")
    sink = InfluxSink(influx_options(settings.influxdb), catalogue_of(settings))
    sent = rejected_rows = 0
    reasons: set[tuple[str, str]] = set()
    try:
        for batches in _polls(settings, start, end, use_archive=archive):
            rejected = ship_batches(sink, batches)
            rows = sum(len(one.batch) for one in rejected)
            rejected_rows += rows
            sent += sum(len(batch) for batch in batches) - rows
            new_reasons = {(one.batch.table, one.reason) for one in rejected} - reasons
            reasons |= new_reasons
            for table, why in sorted(new_reasons):
                typer.echo(f"\nrejected rows of {table}: {why}", err=True)
            at = datetime.fromtimestamp(batches[0].at_ms / 1000, UTC).isoformat(timespec="seconds")
            typer.echo(f"\rsent up to {at}, {sent:,} rows", err=True, nl=False)
    finally:
        sink.close()
        typer.echo("", err=True)
    typer.echo(f"{sent} rows sent, {rejected_rows} rows rejected")
    raise typer.Exit(1 if rejected_rows else 0)


def _polls(settings: Settings, start: int, end: int, *, use_archive: bool) -> Iterator[Sequence[Batch]]:
    """The polls to ship: from the archive what the journal no longer has, then the journal.

    The newest hour is only in the journal.
    """
    oldest = None if use_archive else _journal_begins(settings)
    middle = end if oldest is None else min(max(oldest, start), end)
    if start < middle:
        if settings.archive is None:
            if oldest is None:
                raise LagwatchError(
                    "nothing to read: no archive section, and the journal is empty or excluded by --archive"
                )
            since = datetime.fromtimestamp(oldest / 1000, UTC).isoformat(timespec="seconds")
            raise LagwatchError(f"the journal begins at {since}, after --from, and there is no archive section")
        for table in catalogue_of(settings):
            if table not in (REJECTED, CONSUMER_TOPIC):
                for batch in archived_batches(settings.archive.url, table, start, middle):
                    yield [batch]
    if middle < end:
        for poll in JournalReader(settings.journal.path).tail(from_ms=middle, to_ms=end):
            batches = [batch for batch in poll.batches if batch.table != REJECTED.name]
            if batches:
                yield batches


def _journal_begins(settings: Settings) -> int | None:
    """The oldest time in the journal. None if it is empty, or does not exist and there is an archive."""
    if settings.archive is not None and not settings.journal.path.exists():
        return None
    return JournalReader(settings.journal.path).stats().oldest_ms


def ship_batches(
    sink: Sink, batches: Sequence[Batch], sleep: Callable[[float], None] = time.sleep
) -> list[RejectedRows]:
    """Write batches and return the rows the sink rejected. Retries with back-off, then raises the SinkError."""
    back_off = BackOff(_RATE)
    while True:
        try:
            return write_poll(sink.write, 0, batches, _RATE.attempts_a_batch)
        except SinkError as error:
            wait = back_off.next_wait(error)
            if back_off.failures == _MAX_ATTEMPTS:
                raise
            sleep(wait)


def _wall_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise LagwatchError(f'"{text}" is not a time (try 2026-11-17T02:00 or 2026-11-17T02:00+01:00)') from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
