"""Runs a job: collects, processes and journals one poll. An error in one run never stops the agent."""

from __future__ import annotations

import logging
import threading
from enum import Enum

from lagwatch.batch import Batch
from lagwatch.clock import Clock, Moment
from lagwatch.journal import Journal
from lagwatch.malloc import trim_malloc
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.protocols import Collected, Failure, Job

log = logging.getLogger(__name__)


class JobOutcome(Enum):
    """The result of one run of a job."""

    FINE = "everything was queried"
    PARTLY = "some targets could not be queried"
    FAILED = "no target could be queried"
    IDLE = "there was nothing to query"


class JobRunner:
    """Runs one job with the state of its cluster and the journal."""

    def __init__(self, job: Job, state: ClusterState, lock: threading.Lock, journal: Journal, clock: Clock) -> None:
        self.job = job
        self.started: float | None = None  # the monotonic time of the last start
        self.seconds: float | None = None  # the duration of the last run
        self.skipped = 0
        self.outcome = JobOutcome.FINE
        self.cancelled = False  # set before its connections are closed, by a stop or a reload: it writes no more
        self._state = state
        self._lock = lock  # jobs of one cluster share its pipeline; runs are journalled in the order they are processed
        self._journal = journal
        self._clock = clock

    def run(self) -> None:
        """Run once. Never raises: a bug in one collector must not stop the others; it is logged and journalled."""
        if self.cancelled:
            return
        now = Moment.now(self._clock)
        self.started = now.monotonic
        collected = self._collect(now)
        trim_malloc()
        self.outcome = _outcome(collected)
        self.seconds = self._clock.monotonic() - now.monotonic
        try:
            with self._lock:
                if self.cancelled:  # it may have failed because of that, and the pipeline may have other settings now
                    return
                batches = self._state.observe(self.job.source, collected, self.seconds, now)
                trim_malloc()
                poll = self._journal.append(batches)
                self._state.publish(batches)
            log.debug("poll job=%s poll=%d rows=%d seconds=%.3f", self.job.name, poll, _rows(batches), self.seconds)
        except Exception:
            log.exception("poll lost job=%s", self.job.name)
        trim_malloc()

    def _collect(self, now: Moment) -> Collected:
        try:
            return self.job.collector.collect(now.wall_ms)
        except Exception as error:
            log.exception("collector failed job=%s", self.job.name)
            reason = f"internal error, please report it: {type(error).__name__}: {error}"
            return Collected([], [Failure(self.job.source, "", reason)], complete=False)


def _outcome(collected: Collected) -> JobOutcome:
    if not collected.failures:
        return JobOutcome.FINE if collected.batches or collected.reached else JobOutcome.IDLE
    return JobOutcome.PARTLY if collected.batches else JobOutcome.FAILED


def _rows(batches: list[Batch]) -> int:
    return sum(len(batch) for batch in batches)
