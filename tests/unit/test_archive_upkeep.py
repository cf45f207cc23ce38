"""Upkeep of the archive: what it removes, and what it never touches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from lagwatch.clock import SettableClock
from tests.harness.archives import HOUR_MS, NOON_MS, Sinks, files_of, lag, opened_sinks, rows_of

DAY_SECONDS = 86_400
OLD = "consumer_lag/day=2025-01-01/cluster=east"


@pytest.fixture
def sink() -> Iterator[Sinks]:
    with opened_sinks() as sinks:
        yield sinks


def put(root: Path, *paths: str) -> None:
    """Make files there."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("kept")


def test_days_past_their_time_are_removed_and_newer_ones_stay(sink: Sinks, tmp_path: Path) -> None:
    put(tmp_path, f"{OLD}/07.parquet", f"{OLD}/.08.parquet.part", f"{OLD}/_09.parquet.unreadable")
    put(tmp_path, "event/day=2025-12-02/cluster=east/07.parquet", "event/day=2025-12-01/cluster=east/07.parquet")
    sink(tmp_path, retention_days=30).write(1, [])
    assert files_of(tmp_path) == ["event/day=2025-12-02/cluster=east/07.parquet"]
    assert not (tmp_path / "consumer_lag/day=2025-01-01").exists()


def test_what_does_not_look_like_the_archives_own_is_never_touched(sink: Sinks, tmp_path: Path) -> None:
    strange = [
        "README.txt",
        "consumer_lag/notes.txt",
        "consumer_lag/day=2025-01-01/_SUCCESS",
        "consumer_lag/day=2025-02-31/cluster=east/07.parquet",
        "consumer_lag/day=old/cluster=east/07.parquet",
        "my_table/day=2025-01-01/cluster=east/07.parquet",
        f"{OLD}/25.parquet",
        f"{OLD}/deeper/07.parquet",
        f"{OLD}/mine.parquet",
        f"{OLD}/.mine.part",
        "consumer_lag/day=2025-01-01/group=east/07.parquet",
    ]
    put(tmp_path, *strange, f"{OLD}/07.parquet")
    (tmp_path / "reports").mkdir()
    sink(tmp_path).write(1, [])
    assert files_of(tmp_path) == sorted(strange)
    assert (tmp_path / "reports").is_dir()


def test_retention_runs_once_an_hour(sink: Sinks, tmp_path: Path) -> None:
    clock = SettableClock(NOON_MS)
    archive = sink(tmp_path, clock=clock)
    archive.write(1, [])
    put(tmp_path, f"{OLD}/07.parquet")
    clock.advance(3599)
    archive.write(2, [])
    assert files_of(tmp_path) == [f"{OLD}/07.parquet"]
    clock.advance(1)
    archive.write(3, [])
    assert files_of(tmp_path) == []


def test_a_clock_set_a_year_ahead_removes_nothing_until_it_has_held_for_a_day(
    sink: Sinks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SettableClock(NOON_MS)
    archive = sink(tmp_path, clock=clock)
    put(tmp_path, "event/day=2025-12-31/cluster=east/07.parquet")
    archive.write(1, [])
    clock.step_wall(365 * DAY_SECONDS)
    for _ in range(24):
        clock.advance(3600)
        archive.write(2, [])
    assert files_of(tmp_path)
    assert caplog.text.count("the wall clock was set forward") == 1
    clock.advance(3600)
    archive.write(3, [])
    assert files_of(tmp_path) == []


def test_a_clock_set_ahead_and_back_again_removes_nothing(sink: Sinks, tmp_path: Path) -> None:
    clock = SettableClock(NOON_MS)
    archive = sink(tmp_path, clock=clock)
    put(tmp_path, "event/day=2025-12-31/cluster=east/07.parquet")
    for step in (365, -365, 0, 0):
        clock.step_wall(step * DAY_SECONDS)
        clock.advance(DAY_SECONDS / 2)
        archive.write(1, [])
    assert files_of(tmp_path)


def test_leftovers_of_a_crash_are_removed_at_the_start(sink: Sinks, tmp_path: Path) -> None:
    folder = "consumer_lag/day=2026-01-01/cluster=east"
    put(tmp_path, f"{folder}/.07.parquet.part", f"{folder}/07.parquet", f"{folder}/_08.parquet.unreadable")
    sink(tmp_path).write(1, [])
    assert files_of(tmp_path) == [f"{folder}/07.parquet", f"{folder}/_08.parquet.unreadable"]


def test_a_crash_between_two_renames_costs_nothing(sink: Sinks) -> None:
    """A filesystem that cannot rename over a file, as HDFS cannot."""
    mock = fs._MockFileSystem()
    mock.create_dir("archive")
    archive = sink("archive", filesystem=mock)
    late = NOON_MS + 60_000
    for number, at_ms in enumerate((NOON_MS, NOON_MS + 9 * HOUR_MS, late, NOON_MS + 9 * HOUR_MS), 1):
        archive.write(number, [lag(at_ms)])
    found = rows_of("archive", filesystem=mock)
    assert {row[1] for row in found} == {NOON_MS, late, NOON_MS + 9 * HOUR_MS}

    folder = "archive/consumer_lag/day=2026-01-01/cluster=east"
    mock.move(f"{folder}/12.parquet", f"{folder}/_12.parquet.old")
    with mock.open_output_stream(f"{folder}/.12.parquet.part") as stream:
        stream.write(b"half")
    sink("archive", filesystem=mock).write(5, [])
    assert rows_of("archive", filesystem=mock) == found
    names = [info.base_name for info in mock.get_file_info(fs.FileSelector(folder))]
    assert names == ["12.parquet", "21.parquet"]
