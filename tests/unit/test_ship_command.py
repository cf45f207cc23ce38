"""Where a past span comes from, and what one refused table costs the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BUILT_IN, CLUSTER, TOPIC
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


def test_a_table_that_is_refused_does_not_hold_up_the_others() -> None:
    class Sink:
        def __init__(self) -> None:
            self.took: list[str] = []

        def write(self, _: int, batches: Sequence[Batch]) -> None:
            if any(batch.table == "cluster" for batch in batches):
                raise SinkError("another type", retriable=False)
            self.took += [batch.table for batch in batches]

    sink: Any = Sink()
    topic = make_batch(TOPIC, "east", START_MS, {"topic": ["a", "b"]})
    assert ship_command._send(sink, [brokers(START_MS, 1), topic]) == (2, "another type")
    assert sink.took == ["topic"]
