"""Appending, reading and checkpoints of the journal on a healthy disk."""

from __future__ import annotations

import sqlite3
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lagwatch.batch import Batch
from lagwatch.clock import SettableClock
from lagwatch.errors import JournalError, JournalInUseError
from lagwatch.journal import Journal, JournalReader
from tests.harness.journal_batches import (
    START_MS,
    event_batch,
    lag_batch,
    numbers,
    poll_batches,
    same_batch,
    same_batches,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal(path, clock=SettableClock(START_MS)) as journal:
        yield journal


def test_polls_come_back_in_order_and_as_they_were(journal: Journal) -> None:
    assert [journal.append(poll_batches(number)) for number in (1, 2, 3)] == [1, 2, 3]
    polls = journal.read(0)
    assert numbers(polls) == [1, 2, 3]
    assert all(same_batches(poll.batches, poll_batches(poll.poll)) for poll in polls)
    assert polls[1].at_ms == START_MS + 2000


def test_poll_numbers_go_on_after_a_restart(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(poll_batches(1))
        journal.append(poll_batches(2))
    with Journal(path) as journal:
        assert journal.newest_poll == 2
        assert journal.append(poll_batches(3)) == 3
        assert numbers(journal.read(0)) == [1, 2, 3]


def test_a_poll_is_there_whole_or_not_at_all(journal: Journal, path: Path) -> None:
    bad = lag_batch(1)
    too_far = Batch(bad.table, bad.cluster, 2**70, bad.rows)
    with pytest.raises(struct.error, match="out of range"):
        journal.append([event_batch(1), too_far])
    assert JournalReader(path).stats().polls == 0
    assert journal.append(poll_batches(1)) == 1  # and the bad one does not block the next


def test_an_append_of_nothing_writes_nothing(journal: Journal) -> None:
    journal.append(poll_batches(1))
    assert journal.append([]) == 1
    assert journal.stats().polls == 1


def test_a_batch_without_rows_is_kept(journal: Journal) -> None:
    journal.append([lag_batch(1, rows=0)])
    (poll,) = journal.read(0)
    assert same_batches(poll.batches, [lag_batch(1, rows=0)])


def test_reading_stops_at_the_limits_but_gives_at_least_one_poll(journal: Journal) -> None:
    for number in range(1, 6):
        journal.append(poll_batches(number, rows=1000))
    assert numbers(journal.read(0, limit_bytes=1)) == [1]
    assert numbers(journal.read(1, limit_polls=2)) == [2, 3]
    assert numbers(journal.read(1, through_poll=4)) == [2, 3, 4]
    assert journal.read(5) == []
    size = journal.stats().tables["consumer_lag"].bytes // 5
    assert numbers(journal.read(0, limit_bytes=3 * size)) == [1, 2]


def test_a_filter_leaves_out_batches_but_not_polls_so_a_cursor_can_pass_them(journal: Journal) -> None:
    journal.append([event_batch(1)])
    journal.append([lag_batch(2, cluster="west"), event_batch(2)])
    journal.append([lag_batch(3), event_batch(3, cluster="west")])
    polls = journal.read(0, tables=["consumer_lag"], clusters=["west"])
    assert [[batch.table for batch in poll.batches] for poll in polls] == [[], ["consumer_lag"], []]


def test_the_tail_is_every_poll_after_a_number(journal: Journal) -> None:
    for number in range(1, 8):
        journal.append(poll_batches(number))
    assert [poll.poll for poll in journal.tail(3)] == [4, 5, 6, 7]
    assert [poll.batches[0].table for poll in journal.tail(5, tables=["event"])] == ["event", "event"]


def test_the_newest_batch_of_each_cluster_table_and_source_is_found(journal: Journal, path: Path) -> None:
    for number in (1, 2, 3):
        journal.append([lag_batch(number, cluster="west" if number == 2 else "east"), event_batch(number)])
    sizes = replace(lag_batch(4), source="kafka_logdirs")
    journal.append([sizes])
    found = {batch.key: batch for batch in JournalReader(path).newest(tables=["consumer_lag"])}
    assert same_batch(found["consumer_lag", "east", ""], lag_batch(3))
    assert same_batch(found["consumer_lag", "west", ""], lag_batch(2, cluster="west"))
    assert same_batch(found["consumer_lag", "east", "kafka_logdirs"], sizes)
    assert len(found) == 3
    assert [batch.table for batch in journal.newest("east")] == ["consumer_lag", "event", "consumer_lag"]
    assert [batch.cluster for batch in journal.newest("west", ["consumer_lag", "topic"])] == ["west"]
    assert journal.newest("nowhere") == []


def test_a_newest_batch_that_is_corrupt_gives_way_to_the_one_before(journal: Journal, path: Path) -> None:
    for number in (1, 2):
        journal.append([lag_batch(number)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE batch SET crc = 0 WHERE poll = 2")
    connection.close()
    [found] = JournalReader(path).newest("east")
    assert same_batch(found, lag_batch(1))


def test_polls_are_read_by_time(journal: Journal, path: Path) -> None:
    for number in range(1, 21):
        journal.append([lag_batch(number)])
    start = lag_batch(0).at_ms
    for reader in (journal, JournalReader(path)):
        assert numbers(reader.read(0, from_ms=start + 5000, to_ms=start + 8000)) == [5, 6, 7]
        assert numbers(reader.read(6, from_ms=start + 5000, to_ms=start + 8000)) == [7]
        assert numbers(reader.read(0, from_ms=start + 19_000)) == [19, 20]
        assert numbers(reader.read(0, to_ms=start + 3000, limit_polls=1)) == [1]
        assert numbers(reader.read(0, from_ms=start + 99_000)) == []
    with JournalReader(path).connection() as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT min(poll), max(poll) FROM batch INDEXED BY batch_by_time WHERE at_ms >= 1"
        ).fetchall()
    assert "COVERING INDEX batch_by_time" in str(plan), "no payload is touched to find them"


def test_a_checkpoint_says_which_polls_it_covers(journal: Journal) -> None:
    assert journal.load_checkpoint() is None
    journal.append(poll_batches(1))
    journal.save_checkpoint({"windows": b"abc\n\0", "alerts": b""}, START_MS)
    journal.append(poll_batches(2))
    checkpoint = journal.load_checkpoint()
    assert checkpoint is not None
    assert (checkpoint.poll, checkpoint.at_ms) == (1, START_MS)
    assert checkpoint.parts == {"windows": b"abc\n\0", "alerts": b""}
    assert [poll.poll for poll in journal.tail(checkpoint.poll)] == [2]


def test_a_checkpoint_may_cover_less_than_the_newest_poll(journal: Journal) -> None:
    for number in (1, 2, 3):
        journal.append(poll_batches(number))
    journal.save_checkpoint({}, START_MS, poll=2)
    checkpoint = journal.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.poll == 2


def test_a_corrupt_checkpoint_falls_back_to_the_one_before(path: Path) -> None:
    with Journal(path) as journal:
        for number in (1, 2, 3):
            journal.append(poll_batches(number))
            journal.save_checkpoint({"windows": b"state %d" % number}, START_MS)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM checkpoint").fetchone() == (2,)
        connection.execute("UPDATE checkpoint SET body = zeroblob(20) WHERE poll = 3")
    connection.close()
    checkpoint = JournalReader(path).load_checkpoint()
    assert checkpoint is not None
    assert (checkpoint.poll, checkpoint.parts) == (2, {"windows": b"state 2"})


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("payload = zeroblob(100)", "the payload is gone"),
        ("cluster = 'west'", "rows must not turn up under another cluster"),
        ("at_ms = at_ms + 1", "nor at another time"),
        ("schema_version = 'x'", "a column of the wrong type is no reason to fail"),
        ("payload = 7", "nor is a payload that is a number"),
        ("crc = NULL", "nor a CRC that is absent"),
    ],
)
def test_a_corrupt_row_is_skipped_and_counted_once(path: Path, damage: str, why: str) -> None:
    with Journal(path) as journal:
        for number in (1, 2, 3):
            journal.append(poll_batches(number))
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE batch SET {damage} WHERE poll = 2 AND table_name = 'consumer_lag'")  # noqa: S608
    connection.close()
    reader = JournalReader(path)
    assert [len(poll.batches) for poll in reader.read(0)] == [2, 1, 2], why
    assert reader.corrupt_rows == 20
    with Journal(path) as journal:
        assert [len(poll.batches) for poll in journal.read(0)] == [2, 1, 2], why
        assert [len(poll.batches) for poll in journal.tail(0)] == [2, 1, 2], why
        assert journal.stats().dropped == {"corrupt": 20}
    assert JournalReader(path).stats().dropped == {"corrupt": 20}  # the count survives a restart


def test_the_figures_say_what_is_kept(journal: Journal, path: Path) -> None:
    for number in (1, 2, 3):
        journal.append(poll_batches(number))
    journal.register_sink("influx", start="oldest")
    journal.advance_live("influx", 1)
    journal.save_checkpoint({}, START_MS - 5000, poll=2)
    stats = journal.stats()
    assert (stats.polls, stats.rows, stats.newest_poll) == (3, 63, 3)
    assert (stats.oldest_ms, stats.newest_ms) == (START_MS + 1000, START_MS + 3000)
    assert (stats.tables["consumer_lag"].rows, stats.tables["event"].batches) == (60, 3)
    assert stats.cursors["influx"].lag_polls == 2
    assert (stats.checkpoint_poll, stats.checkpoint_age_ms) == (2, 5000)
    assert stats.bytes >= path.stat().st_size
    assert (stats.fault, stats.dropped_rows, stats.path) == (None, 0, path)


def test_a_second_agent_is_refused_with_the_process_that_holds_the_lock(journal: Journal, path: Path) -> None:
    with pytest.raises(JournalInUseError, match=rf"{path}: another lagwatch agent \(pid \d+\)"):
        Journal(path)
    assert journal.append(poll_batches(1)) == 1


def test_the_lock_goes_with_the_journal(path: Path) -> None:
    Journal(path).close()
    Journal(path).close()


def test_a_reader_works_beside_the_agent_and_without_one(path: Path) -> None:
    reader = JournalReader(path)
    with pytest.raises(JournalError, match="there is no journal"):
        reader.stats()
    with Journal(path) as journal:
        journal.append(poll_batches(1))
        assert numbers(reader.read(0)) == [1]
        journal.append(poll_batches(2))
        assert reader.stats().polls == 2
    assert [poll.poll for poll in reader.tail()] == [1, 2]


def test_a_file_of_a_newer_lagwatch_is_refused_by_name(path: Path) -> None:
    Journal(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
        connection.execute("UPDATE state SET value = '7.1.0' WHERE key = 'written_by'")
    connection.close()
    with pytest.raises(JournalError, match=r"written by lagwatch 7\.1\.0 in format 9"):
        Journal(path)
    with pytest.raises(JournalError, match=r"written by lagwatch 7\.1\.0"):
        JournalReader(path).stats()
    assert path.exists()


def test_a_format_number_that_no_other_version_wrote_is_damage(path: Path) -> None:
    Journal(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 65537")
    connection.close()
    with Journal(path) as journal:
        assert journal.fault is None
    assert len(list(path.parent.glob("journal.db.unreadable-*"))) == 1


def test_a_file_of_format_1_is_set_aside_and_a_new_one_begun(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with sqlite3.connect(path) as connection:  # as version 1 wrote it: batches name no source
        connection.execute("PRAGMA application_id = 0x4C414757")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("CREATE TABLE batch (seq INTEGER PRIMARY KEY, poll INTEGER, table_name TEXT, cluster TEXT)")
        connection.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT, crc INTEGER) WITHOUT ROWID")
    connection.close()
    with pytest.raises(JournalError, match="its format is 1, this lagwatch reads format 2"):
        JournalReader(path).stats()
    with Journal(path) as journal:
        journal.append(poll_batches(1))
        assert journal.fault is None
        assert len(journal.read(0)) == 1
    assert len(list(path.parent.glob("journal.db.unreadable-*Z"))) == 1
    assert "its format is 1" in caplog.text


def test_a_batch_keeps_its_source(path: Path) -> None:
    with Journal(path) as journal:
        journal.append([replace(batch, source="kafka") for batch in poll_batches(1)])
        (poll,) = journal.read(0)
    assert [batch.source for batch in poll.batches] == ["kafka"] * len(poll.batches)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE batch SET source = 'jmx'")
    connection.close()
    assert [poll.batches for poll in JournalReader(path).read(0)] == [()], "the CRC covers it"


def test_a_closed_journal_takes_nothing_more(path: Path) -> None:
    journal = Journal(path)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.append(poll_batches(1))


def test_a_directory_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="is a directory"):
        Journal(tmp_path)


def test_threads_may_append_advance_trim_and_read_at_once(journal: Journal) -> None:
    journal.register_sink("influx")
    failures: list[BaseException] = []

    def work(one: int) -> None:
        try:
            for step in range(20):
                poll = journal.append(poll_batches(one * 100 + step))
                journal.advance_live("influx", poll)
                journal.save_checkpoint({"windows": b"x"}, START_MS)
                journal.read(max(0, poll - 3))
                journal.trim(START_MS)
        except BaseException as exc:  # noqa: BLE001 - handed to the test
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(one,)) for one in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert journal.newest_poll == 80
    assert journal.fault is None
    polls = [poll.poll for poll in journal.tail()]
    assert polls == sorted(set(polls))
