"""`lagwatch demo --history` as users run it."""

from __future__ import annotations

from pathlib import Path

from tests.harness.cli import lagwatch
from tests.harness.influx import per_series, running_influxd


def test_it_fills_the_influxdb_it_is_given_and_goes_on(tmp_path: Path) -> None:
    with running_influxd() as server:
        done = lagwatch("demo", "--history", "30m", "--into", server.url, "--for", "1s", "--keep", tmp_path / "kept")
        counted = per_series(server, "consumer_group", "status", "count")

    assert done.code == 0, done.stderr
    assert "rows written through pipeline and journal to InfluxDB" in done.stderr
    assert {cluster for cluster, _ in counted} == {"east", "west"}
    assert min(counted.values()) >= 9  # every four minutes, and once more when it goes on
    assert (tmp_path / "kept" / "journal.db").exists()


def test_an_unreachable_influxdb_ends_the_demo(tmp_path: Path) -> None:
    done = lagwatch("demo", "--history", "2h", "--into", "http://127.0.0.1:9", "--keep", tmp_path / "kept")

    assert done.code == 2
    assert "InfluxDB does not accept the history: no answer from http://127.0.0.1:9" in done.stderr


def test_into_without_history_is_refused() -> None:
    done = lagwatch("demo", "--into", "http://127.0.0.1:9")

    assert done.code == 2
    assert "--history" in done.stderr
