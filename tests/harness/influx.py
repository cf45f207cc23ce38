"""A real influxd for tests, and queries of its contents."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lagwatch.demo.influxd import Influxd
from lagwatch.demo.tls_files import TlsFiles
from lagwatch.errors import LagwatchError
from lagwatch.sinks.influx.sink import InfluxOptions
from tests.harness.influxd_build import influxd
from tests.harness.ports import server_port


@contextmanager
def running_influxd(tls: TlsFiles | None = None) -> Iterator[Influxd]:
    """An influxd for the duration of a `with` block; the test fails if it is not available."""
    try:
        binary = influxd()
    except LagwatchError as error:
        pytest.fail(f"no InfluxDB: {error}", pytrace=False)
    with Influxd(binary, server_port, tls) as server:
        yield server


def options_for(server: Influxd, **changes: object) -> InfluxOptions:
    """The options to write to it."""
    return InfluxOptions(server.url, server.org, server.bucket, server.token, **changes)  # type: ignore[arg-type]


def rows(server: Influxd, flux: str) -> list[dict[str, str]]:
    """The rows of a query as dictionaries; Flux returns several tables, each with its own header."""
    found = []
    for table in server.query(flux).replace("\r\n", "\n").split("\n\n"):
        found += list(csv.DictReader(io.StringIO(table.strip("\n"))))
    return found


def per_series(server: Influxd, measurement: str, field: str, how: str) -> dict[tuple[str, ...], int]:
    """The count or sum of a field per series, keyed by its tags in order of their names."""
    flux = (
        f'from(bucket: "{server.bucket}") |> range(start: 0) '
        f'|> filter(fn: (r) => r._measurement == "{measurement}" and r._field == "{field}") |> {how}()'
    )
    hidden = {"", "result", "table", "_value", "_start", "_stop", "_field", "_measurement"}
    return {
        tuple(row[key] for key in sorted(row) if key not in hidden): int(row["_value"]) for row in rows(server, flux)
    }
