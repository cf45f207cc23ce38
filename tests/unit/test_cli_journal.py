"""`lagwatch journal`: the figures and the rows as lines."""

from __future__ import annotations

import json
from pathlib import Path

from lagwatch.cli.journal_command import Polls, row_document, row_line, stats_lines
from lagwatch.journal import CursorStats, Journal, JournalReader, JournalStats, TableStats
from tests.harness.cli import lagwatch as run_lagwatch
from tests.harness.cluster_views import NOW_MS, batch


def figures(**more: object) -> JournalStats:
    values: dict[str, object] = {
        "path": Path("j.db"), "polls": 2, "rows": 1200, "bytes": 2**20, "oldest_ms": NOW_MS - 60_000,
        "newest_ms": NOW_MS - 3000, "newest_poll": 2, "tables": {}, "dropped": {}, "cursors": {},
        "checkpoint_poll": None, "checkpoint_age_ms": None,
    }  # fmt: skip
    return JournalStats(**{**values, **more})  # type: ignore[arg-type]


def test_an_ordinary_journal_in_figures() -> None:
    tables = {"source": TableStats(2, 8, 900), "consumer_lag": TableStats(2, 1192, 9000)}
    lines = stats_lines(figures(tables=tables, checkpoint_poll=1, checkpoint_age_ms=240_000), NOW_MS)
    assert lines[:4] == [
        "j.db: 2 polls, 1,200 rows, 1.0 MiB",
        "kept: 2023-11-14 22:14:00Z to 2023-11-14 22:14:57Z, the newest 3s ago",
        "rows dropped: none",
        "checkpoint: poll 1, 4m ago",
    ]
    assert [line.split()[0] for line in lines[5:]] == ["TABLE", "consumer_lag", "source"]


def test_dropped_rows_cursors_and_faults_are_shown() -> None:
    cursors = {"influx": CursorStats(1, ((3, 9),), 8)}
    lines = stats_lines(
        figures(dropped={"cap": 40, "corrupt": 0}, cursors=cursors, fault="the disk is full", pending_polls=3), NOW_MS
    )
    assert "rows dropped: 40 (cap)" in lines
    assert "fault: the disk is full; 3 polls pending in memory" in lines
    assert lines[-1].split() == ["influx", "1", "8", "3-9"]


def test_an_empty_journal_says_so() -> None:
    lines = stats_lines(figures(polls=0, rows=0, oldest_ms=None, newest_ms=None), NOW_MS)
    assert lines == ["j.db: 0 polls, 0 rows, 1.0 MiB", "rows dropped: none", "checkpoint: none"]


def test_a_row_is_one_line_whatever_is_in_it() -> None:
    odd = 'we\nird "g"=🎉'
    rows = batch("consumer_lag", [{"group": odd, "topic": "t", "partition": 0, "lag": 0, "seconds_since_moved": 0.1}])
    [row] = rows.rows.to_pylist()
    assert row_line(rows, row) == (
        '2023-11-14T22:15:00.000Z east consumer_lag group="we\\nird \\"g\\"=🎉" topic=t partition=0 lag=0 '
        "seconds_since_moved=0.1"
    )
    found = json.loads(json.dumps(row_document(rows, row)))
    assert (found["group"], found["at_ms"], found["cluster"], found["table"]) == (odd, NOW_MS, "east", "consumer_lag")
    assert found["committed_offset"] is None
    assert found["seconds_since_moved"] == 0.1


def test_an_unknown_cluster_is_an_error_with_the_names_there_are(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db") as journal:
        journal.append([batch("source", [{"up": True}])])
    found = run_lagwatch("journal", "tail", tmp_path / "j.db", "--cluster", "west")
    assert (found.code, found.stdout) == (2, "")
    assert 'no cluster "west" (there are: east)' in found.stderr
    assert run_lagwatch("journal", "tail", tmp_path / "j.db", "--cluster", "east").code == 0


def test_the_newest_polls_are_found_at_once_where_numbers_start_high(tmp_path: Path) -> None:
    """After a journal is set aside, poll numbers continue from the wall clock in milliseconds."""
    (tmp_path / "j.db").write_bytes(b"not a journal" * 1000)
    with Journal(tmp_path / "j.db") as journal:
        for number in range(5):
            table = "cluster" if number % 2 else "source"
            journal.append([batch(table, [{"brokers": number} if table == "cluster" else {"up": True}])])
        assert journal.newest_poll > 10**12
    reader = JournalReader(tmp_path / "j.db")

    def last(count: int, *tables: str, clusters: list[str] | None = None) -> list[int]:
        return [poll.poll - reader.newest_poll() for poll in Polls(reader, list(tables) or None, clusters).last(count)]

    assert last(3) == [-2, -1, 0]
    assert last(100) == [-4, -3, -2, -1, 0]
    assert last(1, "cluster") == [-1]
    assert last(9, "cluster", clusters=["east"]) == [-3, -1]
    assert last(9, "rejected") == last(9, clusters=["west"]) == last(0) == []
