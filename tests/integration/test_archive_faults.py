"""The archive on real faulty disks: full, read-only, removed, unmounted; and an agent killed while it writes."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagwatch.batch import Batch
from lagwatch.catalogue import EVENT
from lagwatch.errors import SinkError
from lagwatch.sinks.archive.sink import ArchiveSink
from tests.harness.archive_writer import poll
from tests.harness.archives import HOUR_MS, NOON_MS, Sinks, expected_rows, files_of, lag, opened_sinks, rows_of
from tests.harness.journal_disk import SmallDisk, small_disk

ROOT = Path(__file__).parents[2]
LATER_MS = NOON_MS + 12 * HOUR_MS
FOLDER = "consumer_lag/day=2026-01-01/cluster=east"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "volume") as disk:
        if disk is None:
            pytest.fail("no volume can be mounted for this test; run it as root, or with CAP_SYS_ADMIN", pytrace=False)
        yield disk


@pytest.fixture
def sink() -> Iterator[Sinks]:
    with opened_sinks() as sinks:
        yield sinks


def refused(archive: ArchiveSink, number: int, batches: list[Batch]) -> str:
    """What the archive says to a poll it does not take."""
    with pytest.raises(SinkError) as caught:
        archive.write(number, batches)
    assert caught.value.retriable
    return str(caught.value)


def noon(root: Path) -> set[tuple[object, ...]]:
    """The rows of the hours before the last, each of which may be there once."""
    found = [row for row in rows_of(root) if row[1] < LATER_MS]
    assert len(found) == len(set(found))
    return set(found)


def test_a_full_disk_costs_no_row(sink: Sinks, disk: SmallDisk, tmp_path: Path) -> None:
    root = disk.folder / "archive"
    archive = sink(root, spool_folder=tmp_path)
    polls = [lag(NOON_MS + minute * 60_000, groups=300, partitions=10) for minute in range(10)]
    for number, batch in enumerate(polls, 1):
        archive.write(number, [batch])
    disk.fill(leave_bytes=20_000)
    for _ in range(3):
        said = refused(archive, 11, [lag(LATER_MS)])
        assert said == f"archive {root}/{FOLDER}/12.parquet: the disk is full"
    assert files_of(root) == [], "the part that was written is given back"
    assert archive.settled(10) == 0

    disk.empty()
    archive.write(11, [lag(LATER_MS)])
    assert archive.settled(11) == 10
    assert noon(root) == set(expected_rows(*polls))


def test_a_disk_that_fills_up_while_late_rows_are_merged_keeps_the_file_it_has(
    sink: Sinks, disk: SmallDisk, tmp_path: Path
) -> None:
    archive = sink(disk.folder, spool_folder=tmp_path)
    first, late = lag(NOON_MS, groups=500, partitions=10), lag(NOON_MS + 60_000, groups=500, partitions=10)
    for number, batch in enumerate((first, lag(LATER_MS), late), 1):
        archive.write(number, [batch])
    before = noon(disk.folder)
    disk.fill()
    assert "the disk is full" in refused(archive, 4, [lag(LATER_MS)])
    assert noon(disk.folder) == before == set(expected_rows(first))
    disk.empty()
    archive.write(4, [lag(LATER_MS)])
    assert noon(disk.folder) == set(expected_rows(first, late))


def test_a_disk_too_full_for_the_spool_takes_no_poll_by_half(sink: Sinks, disk: SmallDisk) -> None:
    archive = sink(disk.folder)
    polls = [[lag(NOON_MS + m * 60_000, c, groups=300, partitions=10) for c in ("east", "west")] for m in range(6)]
    archive.write(1, polls[0])
    spool = archive._open[NOON_MS // HOUR_MS]._spool
    size = spool.size
    disk.fill(leave_bytes=size * 3 // 4)  # room for one of the two clusters
    for _ in range(3):
        assert refused(archive, 2, polls[1]) == f"archive {disk.folder}: the disk is full"
        assert spool.size == size, "an attempt leaves nothing behind"
    disk.empty()
    for number in range(2, 7):
        archive.write(number, polls[number - 1])
    archive.write(7, [lag(LATER_MS)])
    assert archive.settled(7) == 6
    assert noon(disk.folder) == set(expected_rows(*(batch for batches in polls for batch in batches)))


def test_a_read_only_disk_is_reported_and_retried(sink: Sinks, disk: SmallDisk, tmp_path: Path) -> None:
    archive = sink(disk.folder, spool_folder=tmp_path)
    archive.write(1, [lag(NOON_MS)])
    disk.read_only()
    assert refused(archive, 2, [lag(LATER_MS)]).endswith("the disk is read-only")
    disk.writable()
    archive.write(2, [lag(LATER_MS)])
    assert noon(disk.folder) == set(expected_rows(lag(NOON_MS)))


def test_a_folder_that_disappears_is_reported_and_not_recreated(sink: Sinks, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    archive = sink(root)
    archive.write(1, [lag(NOON_MS)])
    shutil.rmtree(root)
    for at_ms in (NOON_MS + 60_000, LATER_MS):
        assert refused(archive, 2, [lag(at_ms)]) == f"archive folder {root} no longer exists; create it or mount it"
    assert not root.exists()
    assert archive.settled(1) == 0
    root.mkdir()
    archive.write(2, [lag(LATER_MS)])
    assert archive.settled(2) == 1
    assert noon(root) == set(expected_rows(lag(NOON_MS)))


def test_a_day_that_is_removed_under_it_is_recreated(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    archive.write(1, [lag(NOON_MS - HOUR_MS)])
    archive.write(2, [lag(NOON_MS + HOUR_MS // 2)])
    shutil.rmtree(tmp_path / "consumer_lag")
    archive.write(3, [lag(LATER_MS)])
    assert files_of(tmp_path) == [f"{FOLDER}/12.parquet"]


def test_a_volume_that_is_unmounted_does_not_fill_the_disk_below(sink: Sinks, tmp_path: Path) -> None:
    with small_disk(tmp_path / "volume") as disk:
        if disk is None:
            pytest.fail("no volume can be mounted for this test; run it as root, or with CAP_SYS_ADMIN", pytrace=False)
        archive = sink(disk.folder / "archive", spool_folder=tmp_path)
        archive.write(1, [lag(NOON_MS)])
        shutil.rmtree(disk.folder / "archive")
    (disk.folder / "archive").mkdir()  # the mount point looks the same, but it is another disk
    said = refused(archive, 2, [lag(LATER_MS)])
    assert said.endswith(f"{disk.folder} is no longer mounted; mount it")
    assert files_of(disk.folder) == []


def test_kills_at_any_moment_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    polls, seed = 2400, random.randrange(2**32)  # twenty hours
    chance = random.Random(seed)
    command = [sys.executable, "-m", "tests.harness.archive_writer", str(tmp_path), str(polls)]
    kills = 0
    while True:
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            if kills == 12:
                said, _ = process.communicate()
                break
            assert process.stdout is not None
            process.stdout.readline()  # it has made a file: from here on, any moment
            time.sleep(chance.uniform(0, 0.15))
            process.kill()
            kills += 1
    assert said.endswith("done\n"), f"seed {seed}"
    assert all(file.endswith(".parquet") for file in files_of(tmp_path / "archive")), f"seed {seed}"

    hours = NOON_MS + 19 * HOUR_MS  # the last one is still open
    expected = [batch for number in range(1, polls + 1) for batch in poll(number) if batch.at_ms < hours]
    lags = [batch for batch in expected if batch.table == "consumer_lag" and batch.at_ms % 60_000 == 0]
    first = [batch for batch in poll(1) if batch.table == "consumer_lag"]  # the first minute begins at the half
    found = rows_of(tmp_path / "archive")
    assert len(found) == len(set(found)), f"seed {seed}"
    assert set(found) == set(expected_rows(*first, *lags)), f"seed {seed}"
    happened = rows_of(tmp_path / "archive", EVENT)
    assert sorted(happened) == sorted(expected_rows(*(b for b in expected if b.table == "event"))), f"seed {seed}"
