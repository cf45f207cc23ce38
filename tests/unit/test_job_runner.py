"""One run of a job: its outcome, what reaches the journal and the snapshot, and collectors that raise."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lagwatch.batch import Batch
from lagwatch.clock import SettableClock
from lagwatch.journal import Journal
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected, Collector, Job
from lagwatch.runtime.job import JobOutcome, JobRunner
from tests.harness.collectors import REFUSED, SILENT, FakeCollector

Source = tuple[str, bool, str | None]


class RunnerHarness:
    """Runs a collector as the agent does, over a journal of its own."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.clock = SettableClock()
        self.state = ClusterState(Pipeline("east"))

    def runner(self, collector: Collector) -> JobRunner:
        return JobRunner(Job("east", "fake", collector, 10), self.state, threading.Lock(), self.journal, self.clock)

    def sources(self) -> list[Source]:
        """Target, up and error of the newest rows of `source`."""
        return [(row["target"], row["up"], row["error"]) for row in self._newest("source")]

    def brokers(self) -> list[int]:
        return [row["broker"] for row in self._newest("broker")]

    def _newest(self, table: str) -> list[dict[str, Any]]:
        batches = self.journal.newest("east", [table])
        return [row for batch in batches if batch.source == "fake" for row in batch.rows.to_pylist()]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RunnerHarness]:
    with Journal(tmp_path / "journal.db") as journal:
        yield RunnerHarness(journal)


def test_a_run_without_failures_is_fine(harness: RunnerHarness) -> None:
    runner = harness.runner(FakeCollector("east"))
    runner.run()
    assert runner.outcome is JobOutcome.FINE
    assert harness.brokers() == [1, 2, 3]
    assert list(harness.state.snapshot.columns("broker", "broker")) == [(1,), (2,), (3,)]
    assert {(target, up) for target, up, _ in harness.sources()} == {
        ("", True),
        *((f"broker {n}", True) for n in (1, 2, 3)),
    }


def test_readers_see_a_run_only_when_it_is_journalled(harness: RunnerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    during: list[set[str]] = []
    append = harness.journal.append

    def watched(batches: Sequence[Batch]) -> int:
        during.append(harness.state.snapshot.sources)
        return append(batches)

    monkeypatch.setattr(harness.journal, "append", watched)
    harness.runner(FakeCollector("east")).run()
    assert (during, harness.state.snapshot.sources) == ([set()], {"fake"})


def test_a_silent_broker_makes_it_partly_and_reaches_the_journal(harness: RunnerHarness) -> None:
    runner = harness.runner(FakeCollector("east", down={3: SILENT}))
    runner.run()
    assert runner.outcome is JobOutcome.PARTLY
    assert harness.brokers() == [1, 2]
    assert ("broker 3", False, SILENT) in harness.sources()


def test_when_no_broker_responds_it_failed(harness: RunnerHarness) -> None:
    runner = harness.runner(FakeCollector("east", down=dict.fromkeys((1, 2, 3), REFUSED)))
    runner.run()
    assert runner.outcome is JobOutcome.FAILED
    [(target, up, error)] = harness.sources()
    assert (target, up) == ("", False)
    assert error is not None
    assert error.startswith("no broker answered (broker 1: connection refused")


def test_with_nothing_to_collect_it_is_idle(harness: RunnerHarness) -> None:
    runner = harness.runner(FakeCollector("east", brokers=()))
    runner.run()
    assert runner.outcome is JobOutcome.IDLE


def test_a_broker_that_is_back_is_up_in_the_next_run(harness: RunnerHarness) -> None:
    collector = FakeCollector("east", down={3: SILENT})
    runner = harness.runner(collector)
    runner.run()
    harness.clock.advance(10)
    collector.down.clear()
    runner.run()
    assert runner.outcome is JobOutcome.FINE
    assert ("broker 3", True) in {(target, up) for target, up, _ in harness.sources()}


class BrokenCollector:
    """Breaks the promise never to raise."""

    source = "fake"

    def collect(self, now_ms: int) -> Collected:
        raise ZeroDivisionError(f"at {now_ms}")


def test_a_collector_that_raises_is_a_failure_of_its_job(
    harness: RunnerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    runner = harness.runner(BrokenCollector())
    runner.run()
    assert runner.outcome is JobOutcome.FAILED
    [(target, up, error)] = harness.sources()
    assert (target, up) == ("", False)
    assert error is not None
    assert "internal error, please report it: ZeroDivisionError: at " in error
    assert "collector failed job=east/fake" in caplog.text


def test_a_run_cancelled_by_a_stop_leaves_nothing_in_the_journal_nor_the_snapshot(harness: RunnerHarness) -> None:
    runner = harness.runner(FakeCollector("east", down=dict.fromkeys((1, 2, 3), "the connection was closed")))
    runner.cancelled = True
    runner.run()
    assert runner.outcome is JobOutcome.FINE
    assert harness.journal.newest() == []
    assert harness.state.snapshot.batches == {}
