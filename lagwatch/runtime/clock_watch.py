"""Detects steps of the wall clock.

APScheduler schedules by wall time: after a step back of one hour it runs nothing for an hour (measured). The watch
compares the two clocks every second, so that the agent can reschedule its jobs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lagwatch.clock import STEP_MS, Clock, Moment

log = logging.getLogger(__name__)


class ClockWatch:
    """Calls `on_step(seconds)` when wall time and monotonic time have moved by different amounts."""

    def __init__(self, clock: Clock, on_step: Callable[[float], None], every_seconds: float = 1.0) -> None:
        self._clock = clock
        self._on_step = on_step
        self._every_seconds = every_seconds
        self._last = Moment.now(clock)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock-watch", daemon=True)

    def start(self) -> None:
        """Start watching on a separate thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; blocks until the thread has ended."""
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Compare the clocks once."""
        now = Moment.now(self._clock)
        step_ms = now.wall_ms - self._last.wall_ms - (now.monotonic - self._last.monotonic) * 1000
        self._last = now
        if abs(step_ms) > STEP_MS:
            self._on_step(step_ms / 1000)

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            try:
                self.check()
            except Exception:  # the next step must be handled too
                log.exception("clock step not fully handled")
