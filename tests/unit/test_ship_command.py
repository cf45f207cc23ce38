"""`lagwatch ship` reads the right polls, leaves out only rejected rows, and retries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, BUILT_IN, CLUSTER, TOPIC
from lagwatch.cli import ship_command
from lagwatch.clock import SettableClock
from lagwatch.config import Settings, parse_settings
from lagwatch.errors import SinkError
from lagwatch.journal import Journal
from lagwatch.sinks.archive.sink import ArchiveSink

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS


def settings(folder: Path) -> Settings:
    text = f"""{{journal: {{path: '{folder}/journal.db'}}, archive: {{url: '{folder}/archive'}},
        clusters: [{{name: east, bootstrap: 'a:1'}}]}}"""
    return parse_settings(text, "test")


def brokers(at_ms: int, number: int) -> Batch:
    return make_batch(CLUSTER, "east", at_ms, {"brokers": [number]})


def archive_an_hour(folder: Path) -> None:
    sink = ArchiveSink(f"{folder}/archive", retention_days=400, catalogue=BUILT_IN, clock=SettableClock(START_MS))
    sink.write(1, [brokers(START_MS, 1)])
    sink.write(2, [brokers(START_MS + 2 * HOUR_MS, 2)])  # which ends the hour before
    sink.close()


def sent(folder: Path, *, use_archive: bool = False) -> list[int]:
    polls = ship_command._polls(settings(folder), START_MS, START_MS + 3 * HOUR_MS, use_archive=use_archive)
    return [batch.rows["brokers"][0].as_py() for batches in polls for batch in batches]


def test_the_journal_is_read_within_the_time_range_only(tmp_path: Path) -> None:
    end_ms = START_MS + 3 * HOUR_MS
    with Journal(tmp_path / "journal.db") as journal:
        for number, at_ms in enumerate((START_MS - 1, START_MS, end_ms - 1, end_ms)):
            journal.append([brokers(at_ms, number)])
    assert sent(tmp_path) == [1, 2]


def test_what_the_journal_still_has_follows_what_only_the_archive_has(tmp_path: Path) -> None:
    archive_an_hour(tmp_path)
    with Journal(tmp_path / "journal.db") as journal:
        journal.append([brokers(START_MS + 2 * HOUR_MS, 2)])
    assert sent(tmp_path) == [1, 2]
    assert sent(tmp_path, use_archive=True) == [1]


@pytest.mark.parametrize("use_archive", [True, False])
def test_an_archive_needs_no_journal(tmp_path: Path, use_archive: bool) -> None:
    archive_an_hour(tmp_path)
    assert sent(tmp_path, use_archive=use_archive) == [1]


class RecordingSink:
    """Rejects the rows about broker 13, and fails as often as it should before it accepts anything."""

    name, in_order = "test", False

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.written: list[tuple[str, int]] = []

    def write(self, _: int, batches: Sequence[Batch]) -> None:
        if self.failures:
            self.failures -= 1
            raise SinkError("connection refused", retriable=True, retry_after_seconds=3)
        if any(batch.table == "broker" and 13 in batch.rows["broker"].to_pylist() for batch in batches):
            raise SinkError("another type", retriable=False)
        self.written += [(batch.table, len(batch)) for batch in batches]

    def settled(self, poll: int) -> int:
        return poll

    def close(self) -> None:
        """Nothing is open."""


def test_only_the_rejected_row_of_a_poll_is_left_out() -> None:
    sink = RecordingSink()
    broker = make_batch(BROKER, "east", START_MS, {"broker": [11, 12, 13, 14]})
    rejected = ship_command.ship_batches(sink, [broker, make_batch(TOPIC, "east", START_MS, {"topic": ["a", "b"]})])
    assert [(one.batch.rows["broker"].to_pylist(), one.reason) for one in rejected] == [([13], "another type")]
    assert sorted(sink.written) == [("broker", 1), ("broker", 2), ("topic", 2)]


def test_a_failing_sink_is_retried_with_back_off() -> None:
    sink, waits = RecordingSink(failures=4), list[float]()
    assert ship_command.ship_batches(sink, [brokers(START_MS, 1)], waits.append) == []
    assert len(waits) == 4
    assert all(3 <= wait <= 8 for wait in waits)
    assert sink.written == [("cluster", 1)]


def test_after_five_attempts_the_error_is_raised() -> None:
    waits: list[float] = []
    with pytest.raises(SinkError, match="connection refused"):
        ship_command.ship_batches(RecordingSink(failures=5), [brokers(START_MS, 1)], waits.append)
    assert len(waits) == 4
