"""A day without InfluxDB fits the journal; two million points are shipped during kills, each exactly once."""

from __future__ import annotations

import random
from pathlib import Path

from lagwatch.clock import SettableClock
from lagwatch.journal import Journal
from tests.harness.influx import running_influxd
from tests.harness.journal_load import lag_batch
from tests.harness.shipping_kills import check_everything_is_there_once, fill_while_down, ship_under_fire


def test_a_day_of_50_000_series_every_30_seconds_fits_the_default_cap(tmp_path: Path) -> None:
    clock = SettableClock()
    with Journal(tmp_path / "journal.db", clock=clock) as journal:
        journal.register_sink("influxdb")  # which takes nothing
        polls = 24 * 120
        for number in range(polls):
            clock.advance(30)
            journal.append([lag_batch(50_000, clock.wall_ms())])
            if number % 100 == 0:
                journal.save_checkpoint({}, clock.wall_ms())
                journal.trim(clock.wall_ms())
        stats = journal.stats()
    rows = polls * 50_000
    print(
        f"\n{rows:,} rows in {stats.bytes:,} bytes: {stats.bytes / rows:.2f} bytes a row; dropped {dict(stats.dropped)}"
    )
    assert stats.rows == rows
    assert not stats.dropped
    assert stats.bytes < 2 * 2**30


def test_two_million_points_are_shipped_during_kills_each_exactly_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    fill_while_down(path, series=10_000, polls=200)
    with running_influxd() as server:
        ship_under_fire(server, path, series=10_000, kills=10, random=random.Random(5))
        points = check_everything_is_there_once(server, path)
    print(f"\n{points:,} points")
    assert points >= 2_000_000
