"""One run of one job: ask, complete, keep. Whatever happens in it, the agent goes on."""

from __future__ import annotations

import logging
import threading
from enum import Enum

from lagwatch.batch import Batch
from lagwatch.clock import Clock, Moment
from lagwatch.journal import Journal
from lagwatch.memory import give_back
from lagwatch.protocols import Collected, Failure
from lagwatch.replay import Memory
from lagwatch.wiring import Job

log = logging.getLogger(__name__)


class Outcome(Enum):
    """How a run of a job went."""

    FINE = "all of it was asked"
    PARTLY = "some of it could not be asked"
    FAILED = "none of it could be asked"
    IDLE = "there was nothing to ask"


class Cycle:
    """A job with the memory of its cluster and the journal."""

    def __init__(self, job: Job, memory: Memory, order: threading.Lock, journal: Journal, clock: Clock) -> None:
        self.job = job
        self.started: float | None = None  # monotonic time of the last start
        self.seconds: float | None = None  # how long the last run took
        self.skipped = 0
        self.outcome = Outcome.FINE
        self.cancelled = False  # set when its connections are about to be closed under it
        self._memory = memory
        self._order = order  # jobs of one cluster share its pipeline; what it saw first is written first
        self._journal = journal
        self._clock = clock

    def run(self) -> None:
        """Never raises: a bug in one collector must not stop the others, and must be seen."""
        now = Moment.now(self._clock)
        self.started = now.monotonic
        collected = self._collect(now)
        if self.cancelled:
            return  # it failed because we stop, which says nothing about the cluster
        give_back()
        self.outcome = _outcome(collected)
        self.seconds = self._clock.monotonic() - now.monotonic
        try:
            with self._order:
                batches = self._memory.observe(self.job.source, collected, self.seconds, now)
                give_back()
                poll = self._journal.append(batches)
            log.debug("poll job=%s poll=%d rows=%d seconds=%.3f", self.job.name, poll, _rows(batches), self.seconds)
        except Exception:
            log.exception("poll lost job=%s", self.job.name)
        give_back()

    def _collect(self, now: Moment) -> Collected:
        try:
            return self.job.collector.collect(now.wall_ms)
        except Exception as error:
            log.exception("collector failed job=%s", self.job.name)
            reason = f"internal error, please report it: {type(error).__name__}: {error}"
            return Collected([], [Failure(self.job.source, "", reason)], complete=False)


def _outcome(collected: Collected) -> Outcome:
    if not collected.failures:
        return Outcome.FINE if collected.batches or collected.reached else Outcome.IDLE
    return Outcome.PARTLY if collected.batches else Outcome.FAILED


def _rows(batches: list[Batch]) -> int:
    return sum(len(batch) for batch in batches)
