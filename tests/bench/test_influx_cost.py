"""Points per second encoded and written to a real InfluxDB, beside influxdb-client's own `Point` objects."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write.point import Point
from influxdb_client.client.write_api import SYNCHRONOUS

from lagwatch.catalogue import CONSUMER_LAG
from lagwatch.sinks.influx.line_protocol import encode_lines
from lagwatch.sinks.influx.sink import InfluxSink
from tests.harness.influx import options_for, per_series, running_influxd
from tests.harness.journal_load import lag_batch

POINTS = 100_000
T = TypeVar("T")


def test_what_a_point_costs() -> None:
    now_ms = time.time_ns() // 1_000_000
    batch = lag_batch(POINTS, now_ms)
    few = lag_batch(POINTS // 10, now_ms)
    ours, lines = _timed(lambda: encode_lines(batch, CONSUMER_LAG, {}), 5)
    theirs, points = _timed(lambda: [_point(row, few.at_ms) for row in few.rows.to_pylist()], 1)
    ours_of_few = bytes(encode_lines(few, CONSUMER_LAG, {}).body).decode().splitlines()
    assert sorted(map(_in_order, points)) == sorted(map(_in_order, ours_of_few))
    our_rate, their_rate = len(lines) / ours, len(points) / theirs
    times = our_rate / their_rate
    print(f"\nencoding: {our_rate:,.0f} points/s, Point objects {their_rate:,.0f}/s: {times:.0f} times (aim 10)")

    with running_influxd() as server:
        sink = InfluxSink(options_for(server))
        sink.write(0, [lag_batch(10, now_ms - 60_000)])
        wall, _ = _timed(lambda: sink.write(1, [batch]), 1)
        met = "met" if wall < 6 else "not met"
        print(f"encoded and written: {POINTS:,} points in {wall:.2f} s, {POINTS / wall:,.0f} points/s (aim 6 s: {met})")
        with InfluxDBClient(server.url, server.token, org=server.org, enable_gzip=True, timeout=60_000) as client:
            write = client.write_api(write_options=SYNCHRONOUS).write
            rows = lag_batch(POINTS // 10, now_ms - 30_000).rows.to_pylist()
            records = [_as_point(row, now_ms - 30_000) for row in rows]
            theirs_wall, _ = _timed(lambda: write(server.bucket, server.org, records, write_precision="ms"), 1)
        print(f"the same through Point objects: {len(rows) / theirs_wall:,.0f} points/s")
        assert sum(per_series(server, "consumer_lag", "lag", "count").values()) == 10 + POINTS + POINTS // 10


def _timed(work: Callable[[], T], times: int) -> tuple[float, T]:
    """The best wall time of several, and the last result."""
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return best, result


def _as_point(row: dict[str, object], at_ms: int) -> Any:
    make: Any = Point  # it has no types
    point = make("consumer_lag").tag("cluster", "east").time(at_ms, "ms")
    for tag in ("group", "topic", "partition"):
        point.tag(tag, str(row[tag]))
    for field in CONSUMER_LAG.fields:
        value = row[field.name]
        if value is not None:
            point.field(field.name, round(value, 1) if isinstance(value, float) else value)
    return point


def _in_order(line: str) -> tuple[str, list[str], str]:
    """A line with its fields in order of their names, which Point keeps and we do not; no value here has a space in it."""
    tags, fields, time_ms = line.split(" ")
    return tags, sorted(field.replace("complete=1.0", "complete=1") for field in fields.split(",")), time_ms


def _point(row: dict[str, object], at_ms: int) -> str:
    return str(_as_point(row, at_ms).to_line_protocol())
