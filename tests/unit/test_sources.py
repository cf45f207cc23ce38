"""Source rows: up or down, since when, and what is logged."""

from __future__ import annotations

from typing import Any

import pytest

from lagwatch.batch import make_batch
from lagwatch.catalogue import SOURCE
from lagwatch.clock import Moment, SettableClock
from lagwatch.pipeline.sources import Sources, ends_read, reads_topic, run_field
from lagwatch.protocols import Collected, Failure


def down(target: str, reason: str) -> Failure:
    return Failure("kafka", target, reason)


class SourceWatcher:
    def __init__(self) -> None:
        self.clock = SettableClock()
        self.sources = Sources("east")

    def see(
        self, *failures: Failure, reached: tuple[str, ...] = (), fallback: str | None = None
    ) -> dict[str, dict[str, Any]]:
        self.clock.advance(10)
        collected = Collected([], failures, reached, fallback=fallback)
        batch = self.sources.observe("kafka", collected, 0.5, Moment.now(self.clock))
        self.last = batch
        return {row["target"]: row for row in batch.rows.to_pylist()}


@pytest.fixture
def watcher() -> SourceWatcher:
    return SourceWatcher()


def test_a_target_is_down_since_its_first_failure_and_says_why(watcher: SourceWatcher) -> None:
    watcher.see(reached=("broker 1", "broker 2"))
    since = watcher.clock.wall_ms() + 10_000
    watcher.see(down("broker 2", "refused"), reached=("broker 1",))
    rows = watcher.see(down("broker 2", "no answer"), reached=("broker 1",))

    assert rows["broker 2"]["since_ms"] == since
    assert rows["broker 2"]["error"] == "no answer"
    assert rows["broker 2"]["last_success_age_seconds"] == 20
    assert (rows["broker 1"]["up"], rows[""]["up"]) == (True, True)


def test_when_each_broker_read_its_log_ends_is_in_its_row() -> None:
    clock, spans = SettableClock(), {1: (3, 8), 12: (4, 2500)}
    collected = Collected([], [down("broker 3", "no answer")], ["broker 1", "broker 12", "broker 4"], ends_read=spans)
    batch = Sources("east").observe("kafka", collected, 2.5, Moment.now(clock))
    assert ends_read(batch) == spans


def test_several_failures_of_one_target_are_one_row(watcher: SourceWatcher) -> None:
    rows = watcher.see(down("partitions", "a"), down("partitions", "b"))
    assert rows["partitions"]["error"] == "a; b"


def test_a_target_no_longer_queried_is_dropped(watcher: SourceWatcher) -> None:
    watcher.see(reached=("broker 1", "broker 9"))
    assert set(watcher.see(reached=("broker 1",))) == {"", "broker 1"}


def test_a_target_that_was_down_is_reported_as_up_once_before_it_is_dropped(watcher: SourceWatcher) -> None:
    """What stores the newest row of each target would else show it as down long after."""
    watcher.see(down("partitions", "no leader for orders/3"))
    row = watcher.see()["partitions"]
    assert (row["up"], row["error"]) == (True, None)
    assert set(watcher.see()) == {""}


def test_only_changes_are_logged(watcher: SourceWatcher, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    watcher.see(reached=("broker 1",))
    for _ in range(3):
        watcher.see(down("broker 1", "refused"))
    watcher.see(reached=("broker 1",))

    assert [record.getMessage() for record in caplog.records] == [
        'source failed cluster=east source=kafka target="broker 1" error="refused"',
        'source recovered cluster=east source=kafka target="broker 1" down_for=30s polls_failed=3',
    ]


def test_a_fallback_is_no_failure_and_its_row_says_why(watcher: SourceWatcher) -> None:
    rows = watcher.see(reached=("broker 1",), fallback="not allowed")
    assert (rows[""]["up"], rows[""]["error"], rows[""]["fallback"]) == (True, None, "not allowed")
    assert rows["broker 1"]["fallback"] is None
    assert watcher.see(down("", "no broker"), fallback="not allowed")[""]["fallback"] is None
    assert watcher.see()[""]["fallback"] is None


def test_a_fallback_is_logged_once_at_each_change_also_across_failures_and_restarts(
    watcher: SourceWatcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "lagwatch.pipeline.sources")
    for _ in range(3):
        watcher.see(fallback="not allowed")
    before, watcher.sources = watcher.last, Sources("east")
    watcher.sources.restore(before, Moment.now(watcher.clock))
    watcher.see(fallback="not allowed")
    watcher.see(down("", "no broker"))
    watcher.see(fallback="not allowed")
    for _ in range(2):
        watcher.see()
    watcher.see(fallback="hidden")

    assert [message for message in caplog.messages if message.startswith("fallback")] == [
        'fallback in use cluster=east source=kafka reason="not allowed"',
        "fallback ended cluster=east source=kafka",
        'fallback in use cluster=east source=kafka reason="hidden"',
    ]


def test_the_last_rows_of_a_retired_source_are_up_and_do_not_read_the_offsets_topic(watcher: SourceWatcher) -> None:
    watcher.see(down("broker 2", "refused"), reached=("broker 1",))
    last = watcher.sources.retire("kafka", Moment.now(watcher.clock))
    rows = [(row["target"], row["up"], row["retired"]) for row in last.rows.to_pylist()]
    assert rows == [("", True, True), ("broker 2", True, True)]
    assert (reads_topic(watcher.last), reads_topic(last)) == (True, False)
    assert watcher.sources.names == set()


@pytest.mark.parametrize("complete", [True, False])
def test_the_row_of_a_run_says_whether_it_may_have_missed_something(watcher: SourceWatcher, complete: bool) -> None:
    collected = Collected([], [], ["broker 1"], complete=complete)
    rows = watcher.sources.observe("kafka", collected, 0.1, Moment.now(watcher.clock)).rows.to_pylist()
    assert {row["target"]: row["complete"] for row in rows} == {"": complete, "broker 1": None}


def test_last_rows_of_an_older_version_have_none_for_the_run() -> None:
    last = make_batch(SOURCE, "east", 0, {"source": ["kafka"], "target": ["broker 2"], "up": [True]}, source="kafka")
    assert (run_field(last, "up"), reads_topic(last)) == (None, False)
