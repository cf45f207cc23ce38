"""Journal retention: what is deleted, what is thinned, and what is always kept."""

from __future__ import annotations

import logging
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.batch import Batch, Column, make_batch
from lagwatch.catalogue import TOPIC_PARTITION
from lagwatch.clock import SettableClock
from lagwatch.journal import Cursor, Journal, JournalReader
from tests.harness.cursors import needs
from tests.harness.journal_batches import START_MS, event_batch, lag_batch, numbers, poll_batches

HOUR_MS = 3_600_000


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "j.db", history_seconds=3600, clock=SettableClock(START_MS)) as journal:
        yield journal


def fill(journal: Journal, polls: int, *, every_ms: int = 30_000, rows: int = 20, cluster: str = "east") -> None:
    for _ in range(polls):
        number = journal.newest_poll + 1
        at_ms = START_MS + number * every_ms
        journal.append(
            [
                lag_batch(number, at_ms=at_ms, rows=rows, cluster=cluster),
                event_batch(number, at_ms=at_ms, cluster=cluster),
            ]
        )


def kept(journal: Journal, table: str = "event") -> list[int]:
    return [poll.poll for poll in journal.tail(tables=[table]) if poll.batches]


def test_what_is_shipped_covered_and_old_is_deleted(journal: Journal) -> None:
    fill(journal, 6, every_ms=HOUR_MS // 2)
    journal.save_checkpoint({}, START_MS)
    journal.trim(START_MS + 4 * HOUR_MS)  # polls 1 to 5 are an hour old or more, 6 is not
    assert kept(journal) == [6]
    assert journal.stats().dropped == {}


def test_nothing_is_deleted_without_a_checkpoint(journal: Journal) -> None:
    fill(journal, 3)
    assert journal.trim(START_MS + 100 * HOUR_MS) == 0
    assert kept(journal) == [1, 2, 3]


def test_the_older_of_two_checkpoints_counts_since_the_newer_may_be_damaged(journal: Journal) -> None:
    fill(journal, 2)
    journal.save_checkpoint({}, START_MS)
    fill(journal, 2)
    journal.save_checkpoint({}, START_MS)
    journal.trim(START_MS + 100 * HOUR_MS)
    assert kept(journal) == [3, 4]


@pytest.mark.parametrize(
    ("live", "backfill_to", "expected", "why"),
    [
        (2, None, [3, 4, 5], "the live end has not passed 3"),
        (4, None, [5], "the newest poll stays even when all is shipped"),
        (2, 4, [3, 4, 5], "3 and 4 were jumped over and wait to be backfilled"),
    ],
)
def test_a_sink_keeps_what_it_has_not_shipped(
    journal: Journal, live: int, backfill_to: int | None, expected: list[int], why: str
) -> None:
    journal.register_sink("influx")
    fill(journal, 5)
    journal.save_checkpoint({}, START_MS)
    journal.advance_live("influx", live)
    if backfill_to is not None:
        journal.jump_live("influx", backfill_to)
    journal.trim(START_MS + 100 * HOUR_MS)
    assert kept(journal) == expected, why
    journal.advance_backfill("influx", 4)
    journal.advance_live("influx", 5)
    journal.trim(START_MS + 100 * HOUR_MS)
    assert kept(journal) == [5]


def test_partition_rows_are_thinned_to_one_poll_a_minute_for_each_cluster(journal: Journal) -> None:
    for _ in range(6):
        fill(journal, 1, every_ms=15_000, cluster="east")
        fill(journal, 1, every_ms=15_000, cluster="west")
    journal.save_checkpoint({}, START_MS)
    journal.trim(START_MS)
    # START_MS is 20 s into its minute: minutes begin at polls 3 (40 s later), 7 and 11; the newest of each always stays.
    east = [poll.poll for poll in journal.tail() for batch in poll.batches if batch.table == "consumer_lag"]
    assert east == [1, 2, 3, 4, 7, 8, 11, 12]
    assert len(kept(journal)) == 12, "events are no partition rows"
    assert journal.stats().dropped == {}, "this is ordinary retention"


def test_rows_of_one_job_do_not_thin_out_rows_of_another_in_the_same_table(journal: Journal) -> None:
    def partitions(at_ms: int, source: str) -> Batch:
        columns: dict[str, Column] = {"topic": ["t"], "partition": [0], "size_bytes": [1]}
        return make_batch(TOPIC_PARTITION, "east", at_ms, columns, source=source)

    for number in range(30):
        at_ms = START_MS + number * 10_000
        journal.append([lag_batch(number, at_ms=at_ms), partitions(at_ms, "kafka")])
        if number % 6 == 3:
            journal.append([partitions(at_ms + 100, "kafka_logdirs")])
    journal.save_checkpoint({}, START_MS)
    journal.trim(START_MS)
    kept = [batch.source for poll in journal.tail() for batch in poll.batches if batch.table == "topic_partition"]
    assert kept.count("kafka_logdirs") == 5, "one a minute was written, and all are there"
    assert 5 <= kept.count("kafka") <= 7


def test_thinning_goes_on_where_it_stopped_also_after_a_restart(tmp_path: Path) -> None:
    results = {}
    for restart in (False, True):
        path = tmp_path / f"{restart}.db"
        journal = Journal(path)
        for _ in range(8):
            fill(journal, 3, every_ms=7_000)
            journal.save_checkpoint({}, START_MS)
            journal.trim(START_MS)
            if restart:
                journal.close()
                journal = Journal(path)
        results[restart] = kept(journal, "consumer_lag")
        journal.close()
    # The first poll of each minute (the start is at second 20); polls after the last but one checkpoint stay whole.
    assert results[False] == results[True] == [1, 6, 15, 22, 23, 24]


def test_two_batches_of_a_table_in_one_poll_stay_together(journal: Journal) -> None:
    journal.append([lag_batch(1), lag_batch(2, at_ms=START_MS + 1000)])
    fill(journal, 5, every_ms=100)
    journal.save_checkpoint({}, START_MS)
    journal.trim(START_MS)
    assert len(journal.read(0)[0].batches) == 2


def test_thinning_can_be_off(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", partition_rows_every_seconds=0) as journal:
        fill(journal, 5, every_ms=100)
        journal.save_checkpoint({}, START_MS)
        assert journal.trim(START_MS) == 0


def test_a_wall_clock_set_back_an_hour_neither_deletes_nor_disorders(journal: Journal) -> None:
    journal.append(poll_batches(1))
    for number in range(2, 6):
        at_ms = START_MS - HOUR_MS + number * 60_000
        journal.append([lag_batch(number, at_ms=at_ms), event_batch(number, at_ms=at_ms)])
    journal.save_checkpoint({}, START_MS)
    journal.trim(START_MS - HOUR_MS + 10 * 60_000)
    assert numbers(journal.read(0)) == [1, 2, 3, 4, 5]
    assert kept(journal, "consumer_lag") == [1, 2, 3, 4, 5], "minutes that come twice are kept twice"
    journal.trim(START_MS + 5 * 60_000)  # 2 to 4 are an hour old now, 1 is not: it came before, but with a later time
    assert kept(journal) == [1, 5]
    journal.trim(START_MS + 3 * HOUR_MS)
    assert kept(journal) == [5]


def test_deleting_gives_the_space_back_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with Journal(path, history_seconds=3600, partition_rows_every_seconds=0) as journal:
        fill(journal, 100, rows=10_000)
        journal.save_checkpoint({}, START_MS)
        before = journal.stats().bytes
        journal.trim(START_MS + 100 * HOUR_MS)
        after = journal.stats().bytes
        assert after < before / 5
        journal.append(poll_batches(101))
    assert path.stat().st_size < before / 4


@pytest.mark.parametrize("shipping", [True, False])
def test_the_cap_holds_whatever_the_sinks_do_and_dropped_polls_are_counted(
    tmp_path: Path, shipping: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cap = 3 * 2**20
    path = tmp_path / "j.db"
    with Journal(path, cap_bytes=cap) as journal, caplog.at_level(logging.WARNING):
        journal.register_sink("influx")
        written = 0
        for _ in range(150):
            fill(journal, 1, rows=10_000)
            written += 10_001
            if shipping:
                journal.advance_live("influx", journal.newest_poll)
            assert journal.stats().bytes <= cap
        stats = journal.stats()
        assert journal.fault is None
        assert stats.rows + stats.dropped_rows == written, "every row is there or counted"
        assert set(stats.dropped) == {"thinned", "dropped"}
        assert kept(journal)[-5:] == [146, 147, 148, 149, 150]
        assert journal.read(149)[0].batches[0].rows.num_rows == 10_000
        assert "over its cap" in caplog.text
    assert path.stat().st_size <= cap
    assert JournalReader(path).stats().dropped == stats.dropped


def test_the_cap_thins_each_cluster_before_it_drops(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", cap_bytes=3 * 2**20) as journal:
        while not journal.stats().dropped:
            fill(journal, 1, rows=10_000, cluster="east" if journal.newest_poll % 2 else "west")
        newest = journal.newest_poll
        assert set(journal.stats().dropped) == {"thinned"}
        kept_rows = [
            batch.cluster for poll in journal.read(0) for batch in poll.batches if batch.table == "consumer_lag"
        ]
        assert len(kept(journal)) == newest, "events are all there"
        older_half = kept_rows[: len(kept_rows) - newest // 2 - 1]
        assert older_half
        assert abs(older_half.count("east") - older_half.count("west")) <= 1


def test_the_cap_thins_by_time_as_the_history_does_with_ten_times_the_span(tmp_path: Path) -> None:
    """So a job that writes every five minutes keeps every other of its polls, not every tenth."""

    def rows(source: str, at_ms: int, count: int) -> Batch:
        random = np.random.default_rng(at_ms)
        columns: dict[str, Column] = {
            "topic": ["t"] * count, "partition": np.arange(count), "size_bytes": random.integers(0, 10**9, count)
        }  # fmt: skip
        return make_batch(TOPIC_PARTITION, "east", at_ms, columns, source=source)

    start_ms = START_MS - START_MS % 600_000
    with Journal(tmp_path / "j.db", cap_bytes=4 * 2**20, partition_rows_every_seconds=60) as journal:
        at_ms = start_ms
        while not journal.stats().dropped:
            journal.append([rows("kafka", at_ms, 1000)])
            if at_ms % 300_000 == 0:
                journal.append([rows("kafka_logdirs", at_ms, 1)])
            at_ms += 30_000
        assert set(journal.stats().dropped) == {"thinned"}
        middle_ms = start_ms + (at_ms - start_ms) // 2 - 600_000
        for source in ("kafka", "kafka_logdirs"):
            times = [batch.at_ms for poll in journal.tail() for batch in poll.batches if batch.source == source]
            assert [time for time in times if time < middle_ms] == list(range(start_ms, middle_ms, 600_000)), source


@pytest.mark.parametrize("every_seconds", [0, 2], ids=["no thinning", "polls are further apart than ten spans"])
def test_where_thinning_frees_nothing_the_cap_drops_the_oldest_polls(every_seconds: float, tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", cap_bytes=2**20, partition_rows_every_seconds=60) as journal:
        journal.reconfigure(history_seconds=3600, partition_rows_every_seconds=every_seconds)
        for _ in range(60):
            fill(journal, 1, rows=10_000)
            assert journal.fault is None
            assert journal.stats().bytes <= 2**20
        assert set(journal.stats().dropped) == {"dropped"}
        oldest = journal.read(0)[0].poll
        assert kept(journal, "consumer_lag") == list(range(oldest, 61))


def test_the_cap_never_thins_out_the_newest_batch_of_a_slow_job(tmp_path: Path) -> None:
    def sizes(size: int, at_ms: int) -> Batch:
        columns: dict[str, Column] = {"topic": ["t"], "partition": [0], "size_bytes": [size]}
        return make_batch(TOPIC_PARTITION, "east", at_ms, columns, source="kafka_logdirs")

    with Journal(tmp_path / "j.db", cap_bytes=3 * 2**20) as journal:
        for size in range(9):  # then that job stops, as its broker is down
            journal.append([sizes(size, START_MS + size)])
        while not journal.stats().dropped:
            fill(journal, 1, rows=10_000)
        assert set(journal.stats().dropped) == {"thinned"}
        assert [batch.rows["size_bytes"].to_pylist() for batch in journal.newest("east", ["topic_partition"])] == [[8]]


def test_a_cursor_moves_past_polls_the_cap_has_taken(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", cap_bytes=2**20) as journal:
        journal.register_sink("influx")
        fill(journal, 10)
        journal.jump_live("influx", 8)
        while not journal.stats().dropped.get("dropped"):
            fill(journal, 1, rows=10_000)
        oldest = journal.read(0)[0].poll
        assert oldest > 10
        assert journal.cursor("influx") == Cursor(oldest - 1)


def test_a_poll_too_large_for_the_cap_is_counted_and_does_not_block_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Journal(tmp_path / "j.db", cap_bytes=2**20) as journal:
        with caplog.at_level(logging.WARNING):
            journal.append([lag_batch(1, rows=50_000)])
        journal.append(poll_batches(2))
        journal.save_checkpoint({"windows": os.urandom(300_000)}, START_MS)
        assert journal.fault is None
        assert numbers(journal.read(0)) == [2]
        assert journal.stats().dropped == {"too_large": 50_000}
        assert journal.load_checkpoint() is None
    assert "discarded poll=1" in caplog.text


def test_a_long_read_transaction_cannot_grow_the_wal_past_the_cap(tmp_path: Path) -> None:
    path, cap = tmp_path / "j.db", 2 * 2**20
    with Journal(path, cap_bytes=cap) as journal:
        fill(journal, 2)
        stranger = sqlite3.connect(path, isolation_level=None)
        stranger.execute("BEGIN")
        stranger.execute("SELECT count(*) FROM batch").fetchone()
        while journal.fault is None:
            fill(journal, 1, rows=10_000)
            assert journal.stats().bytes <= cap
        assert "another process keeps reading the file" in journal.fault
        fill(journal, 2, rows=10_000)
        newest = journal.newest_poll
        stranger.close()
        fill(journal, 1)
        assert journal.fault is None
        assert numbers(journal.read(newest - 3)) == [newest - 2, newest - 1, newest, newest + 1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["east", "west"]), st.integers(-100, 300)),
        st.tuples(
            st.sampled_from(["advance_live", "jump_live", "advance_backfill"]), st.sampled_from("ab"), st.integers(0, 9)
        ),
        st.tuples(st.sampled_from(["save_checkpoint", "trim", "reopen"]), st.just(""), st.integers(0, 9)),
    ),
    min_size=10,
    max_size=60,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_no_order_of_events_loses_a_poll_that_is_still_needed(steps: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "j.db", history_seconds=60)
        for sink in "ab":
            journal.register_sink(sink)
        now_ms = START_MS
        appended: dict[int, int] = {}
        for name, which, number in steps:
            newest = journal.newest_poll
            if name == "append":
                now_ms += number * 1000
                poll = journal.append(
                    [lag_batch(newest + 1, rows=3, at_ms=now_ms, cluster=which), event_batch(newest + 1)]
                )
                assert poll == newest + 1
                appended[poll] = now_ms
            elif name == "save_checkpoint":
                journal.save_checkpoint({"x": b"y"}, now_ms, poll=max(0, newest - number))
            elif name == "trim":
                journal.trim(now_ms)
            elif name == "reopen":
                journal.close()
                journal = Journal(Path(folder) / "j.db", history_seconds=60)
            else:
                getattr(journal, name)(which, max(0, newest - number))
        checkpoint = journal.load_checkpoint()
        covered = checkpoint.poll if checkpoint else 0
        whole = {poll.poll for poll in journal.tail() if len(poll.batches) == 2}
        needed = {p for p in appended if p > covered or any(needs(journal.cursor(sink), p) for sink in "ab")}
        assert needed <= whole
        assert journal.stats().dropped == {}
        assert journal.newest_poll == len(appended)
        journal.close()
