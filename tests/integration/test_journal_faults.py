"""The journal on real faulty disks and in damaged files: full, read-only, corrupt, locked, killed."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagwatch.clock import SettableClock
from lagwatch.errors import JournalInUseError
from lagwatch.journal import Cursor, Journal, JournalReader
from tests.harness.journal_batches import START_MS, lag_batch, numbers, poll_batches, same_batch, same_batches
from tests.harness.journal_disk import SmallDisk, small_disk
from tests.harness.journal_kills import kill_again_and_again

ROOT = Path(__file__).parents[2]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk | None]:
    with small_disk(tmp_path / "volume") as disk:
        yield disk


def test_a_write_that_fails_sends_polls_to_memory_and_they_are_written_later(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.harness.journal_limited", str(tmp_path / "j.db")],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.stdout == "all there\n", result.stderr


def test_a_disk_that_fills_up_costs_no_poll(
    disk: SmallDisk | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if disk is None:
        test_a_write_that_fails_sends_polls_to_memory_and_they_are_written_later(tmp_path)
        return
    clock = SettableClock(START_MS)
    with Journal(disk.folder / "j.db", clock=clock) as journal, caplog.at_level(logging.INFO):
        journal.register_sink("influx")
        for number in (1, 2):
            journal.append(poll_batches(number, rows=1000))
        disk.fill(leave_bytes=100_000)
        while journal.fault is None:
            journal.append(poll_batches(journal.newest_poll + 1, rows=1000))
        assert "the disk is full" in journal.fault
        assert journal.fault_since_ms == START_MS
        first_lost = journal.newest_poll
        journal.advance_live("influx", 2)
        journal.save_checkpoint({"windows": b"state"}, START_MS)
        for _ in range(4):
            journal.append(poll_batches(journal.newest_poll + 1, rows=1000))
        assert numbers(journal.read(0)) == list(range(1, first_lost)), "what is on disk can still be shipped"
        assert journal.stats().pending_polls == 5
        assert caplog.text.count("keeping polls in memory") == 1, "said once"

        disk.empty()
        clock.advance(90)
        newest = journal.append(poll_batches(journal.newest_poll + 1, rows=1000))

        assert journal.fault is None
        assert "journal recovered" in caplog.text
        assert "down_for=90s polls_written_late=6" in caplog.text
        polls = journal.read(0)
        assert numbers(polls) == list(range(1, newest + 1))
        assert all(same_batches(poll.batches, poll_batches(poll.poll, rows=1000)) for poll in polls)
    with Journal(disk.folder / "j.db") as journal:
        assert journal.cursor("influx") == Cursor(2)
        checkpoint = journal.load_checkpoint()
        assert checkpoint is not None
        assert checkpoint.poll == first_lost, "it covers what had been appended when it was taken"


def test_a_disk_that_is_full_from_the_start_does_not_stop_the_agent(disk: SmallDisk | None, tmp_path: Path) -> None:
    if disk is None:
        test_a_write_that_fails_sends_polls_to_memory_and_they_are_written_later(tmp_path)
        return
    disk.fill()
    with Journal(disk.folder / "j.db", memory_bytes=100_000) as journal:
        assert journal.fault is not None
        journal.register_sink("influx", start="oldest")
        appended = [journal.append([lag_batch(number, rows=1000)]) for number in range(1, 31)]
        lost = journal.stats().dropped["memory_full"]
        assert 10_000 < lost < 30_000, "memory is bounded, the oldest polls go and are counted"
        assert journal.read(0) == []
        assert journal.load_checkpoint() is None
        disk.empty()
        appended.append(journal.append([lag_batch(31, rows=1000)]))
        assert journal.fault is None
        assert numbers(journal.read(0)) == appended[lost // 1000 :]
        assert journal.cursor("influx") == Cursor(0)
    assert JournalReader(disk.folder / "j.db").stats().dropped == {"memory_full": lost}


def test_a_read_only_disk_is_read_and_retried(
    disk: SmallDisk | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if disk is None:
        test_a_write_that_fails_sends_polls_to_memory_and_they_are_written_later(tmp_path)
        return
    path = disk.folder / "j.db"
    with Journal(path) as journal:
        journal.append(poll_batches(1))
        journal.save_checkpoint({"windows": b"state"}, START_MS)
    disk.read_only()
    reader = JournalReader(path)
    assert numbers(reader.read(0)) == [1]
    assert reader.stats().polls == 1
    with Journal(path) as journal:
        assert journal.fault == f"{path}: the disk is read-only"
        assert journal.load_checkpoint() is not None, "a start needs its state also then"
        assert journal.append(poll_batches(2)) == 2
        assert numbers(journal.read(0)) == [1]
        disk.writable()
        assert journal.append(poll_batches(3)) == 3
        assert journal.fault is None
        polls = journal.read(0)
        assert numbers(polls) == [1, 2, 3]
        assert all(same_batches(poll.batches, poll_batches(poll.poll)) for poll in polls)

        disk.fill()
        while journal.fault is None:
            journal.append(poll_batches(journal.newest_poll + 1, rows=1000))
        disk.empty()
        disk.read_only()  # the journal has let go of its file, or the kernel would refuse
        with caplog.at_level(logging.WARNING):
            journal.append(poll_batches(journal.newest_poll + 1))
        assert "the disk is read-only" in caplog.text, "another reason is said again"
        disk.writable()
        newest = journal.append(poll_batches(journal.newest_poll + 1))
        assert numbers(journal.read(0)) == list(range(1, newest + 1))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "an empty file is a journal to be made"),
        (b"this is not a database, however long it may be " * 200, "text"),
        (os.urandom(100_000), "noise"),
        (b"SQLite format 3\0" + os.urandom(10_000), "noise after the right beginning"),
    ],
)
def test_a_file_that_is_not_a_journal_is_set_aside(
    tmp_path: Path, content: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "j.db"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING), Journal(path) as journal:
        assert journal.fault is None, why
        poll = journal.append(poll_batches(1))
        assert numbers(journal.read(0)) == [poll]
    aside = [file for file in tmp_path.glob("j.db.unreadable-*") if not file.name.endswith(("-wal", "-shm"))]
    assert [file.read_bytes() for file in aside] == ([content] if content else [])
    assert ("journal unreadable, created a new one" in caplog.text) == bool(content)


def test_the_database_of_another_application_is_set_aside_unharmed(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
        connection.execute("INSERT INTO mine VALUES (42)")
    connection.close()
    Journal(path).close()
    (aside,) = tmp_path.glob("j.db.unreadable-*Z")
    connection = sqlite3.connect(aside)
    assert connection.execute("SELECT x FROM mine").fetchall() == [(42,)]
    connection.close()


def test_poll_numbers_stay_unique_when_a_journal_was_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with Journal(path) as journal:
        for number in range(1, 50):
            journal.append(poll_batches(number))
    path.write_bytes(b"gone")
    with Journal(path) as journal:
        assert journal.append(poll_batches(1)) > 50


def test_only_the_last_two_files_set_aside_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    for number in range(4):
        path.write_bytes(b"not a database %d " % number * 100)
        Journal(path, clock=SettableClock(START_MS + number * 1000)).close()
    assert len(list(tmp_path.glob("j.db.unreadable-*"))) == 2


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_opens_and_what_is_read_is_right(tmp_path: Path, part: float) -> None:
    path = tmp_path / "j.db"
    build(path)
    os.truncate(path, int(path.stat().st_size * part))
    check_damaged(path)


def test_damage_found_while_running_costs_the_file_but_not_the_poll_at_hand(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with Journal(path) as journal:
        journal.register_sink("influx")
        for number in range(1, 20):
            journal.append(poll_batches(number, rows=500))
    with Journal(path) as journal:
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(os.urandom(path.stat().st_size - 4096))
        appended = [journal.append(poll_batches(number)) for number in (20, 21)]
        journal.trim(START_MS)
        journal.read(0)
        appended += [journal.append(poll_batches(number)) for number in (22, 23)]
        assert appended == [20, 21, 22, 23]
        assert journal.fault is None
        polls = journal.read(0)
        assert numbers(polls)[-2:] == [22, 23]
        assert all(same_batches(poll.batches, poll_batches(poll.poll)) for poll in polls)
        assert journal.cursor("influx").live <= polls[0].poll - 1, "what is in the new file is still to be shipped"
    assert len([file for file in tmp_path.glob("j.db.unreadable-*") if file.name.endswith("Z")]) == 1


def build(path: Path) -> None:
    """Thirty polls, two checkpoints and a cursor."""
    with Journal(path, clock=SettableClock(START_MS)) as journal:
        journal.register_sink("influx")
        for number in range(1, 31):
            journal.append(poll_batches(number, rows=200))
            if number in (10, 20):
                journal.save_checkpoint({"windows": b"state %d" % number * 2000}, START_MS)
        journal.advance_live("influx", 12)
        shutil.copy(path, path.with_name("unclean"))
        shutil.copy(path.with_name(path.name + "-wal"), path.with_name("unclean-wal"))


def check_damaged(path: Path) -> tuple[bool, int]:
    """Open, read all, write on. Returns whether the file could be kept, and how many polls were read from it."""
    with Journal(path) as journal:
        assert journal.fault is None
        polls = list(journal.tail())
        for poll in polls:
            known = {batch.table: batch for batch in poll_batches(poll.poll, rows=200)}
            assert all(same_batch(batch, known[batch.table]) for batch in poll.batches)
        checkpoint = journal.load_checkpoint()
        if checkpoint is not None:
            assert checkpoint.parts == {"windows": b"state %d" % checkpoint.poll * 2000}
        assert journal.register_sink("influx").live in (0, 12, journal.newest_poll)
        journal.stats()
        journal.trim(START_MS)
        journal.save_checkpoint({"windows": b"new"}, START_MS)
        newest = journal.append([lag_batch(77)])
        assert journal.fault is None
        found = journal.read(newest - 1)
        assert numbers(found) == [newest]
        assert same_batches(found[0].batches, [lag_batch(77)])
    return not any(path.parent.glob(path.name + ".unreadable-*")), len(polls)


@pytest.mark.parametrize(("part", "flips"), [("j.db", 200), ("j.db-wal", 50)])
def test_a_flipped_bit_anywhere_never_stops_the_journal_and_never_changes_a_row(
    tmp_path: Path, part: str, flips: int
) -> None:
    build(tmp_path / "clean")
    original = "clean" if part == "j.db" else "unclean"
    chance = random.Random(int(os.environ.get("JOURNAL_SEED", "1")))
    kept = read = 0
    for number in range(flips):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, damaged = folder / "j.db", folder / part
        shutil.copy(tmp_path / original, path)
        if damaged != path:
            shutil.copy(tmp_path / "unclean-wal", damaged)
        offset = chance.randrange(damaged.stat().st_size)
        with damaged.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1 << chance.randrange(8)]))
        was_kept, polls = check_damaged(path)
        kept += was_kept
        read += polls
        shutil.rmtree(folder)
    assert kept > flips / 2, "most flips fall into payloads, and cost one row"
    assert read > flips * (29 if part == "j.db" else 10), "of 30 polls; a flip in the WAL costs what comes after it"


HOLDER = """
import sys, time
from lagwatch.journal import Journal
journal = Journal(sys.argv[1])
print("open", flush=True)
time.sleep(600)
"""


def test_a_second_agent_is_refused_until_the_first_is_dead_even_by_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(JournalInUseError, match=rf"{path}: another lagwatch agent \(pid {holder.pid}\)"):
            Journal(path)
        assert JournalReader(path).stats().polls == 0, "reading needs no lock"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with Journal(path) as journal:
        assert journal.append(poll_batches(1)) == 1


def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    tally = kill_again_and_again(tmp_path / "journal.db", kills=20, seed=7)
    assert tally.kills == 20
