"""One run of one job: ask, complete, keep. Whatever happens in it, the agent goes on."""

from __future__ import annotations

import logging
import threading
from enum import Enum

from lagwatch.batch import Batch
from lagwatch.clock import Clock, Moment
from lagwatch.journal import Journal
from lagwatch.malloc import trim_malloc
from lagwatch.pipeline.replay import ClusterState
from lagwatch.protocols import Collected, Failure, Job

log = logging.getLogger(__name__)


class JobOutcome(Enum):
    """How a run of a job went."""

    FINE = "all of it was asked"
    PARTLY = "some of it could not be asked"
    FAILED = "none of it could be asked"
    IDLE = "there was nothing to ask"


class JobRunner:
    """A job with the memory of its cluster and the journal."""

    def __init__(self, job: Job, state: ClusterState, lock: threading.Lock, journal: Journal, clock: Clock) -> None:
        self.job = job
        self.started: float | None = None  # monotonic time of the last start
        self.seconds: float | None = None  # how long the last run took
        self.skipped = 0
        self.outcome = JobOutcome.FINE
        self.cancelled = False  # set before its connections are closed, by a stop or a reload: it writes no more
        self._state = state
        self._lock = lock  # jobs of one cluster share its pipeline; what it observes first is journalled first
        self._journal = journal
        self._clock = clock

    def run(self) -> None:
        """Never raises: a bug in one collector must not stop the others, and must be seen."""
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
