"""Notices when somebody sets the wall clock.

APScheduler schedules by wall time: after a step back of an hour it runs nothing for an hour (measured). The watch
compares the two clocks each second; the agent then puts every job back to its own rhythm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lagwatch.clock import Clock, Moment

log = logging.getLogger(__name__)

STEP_SECONDS = 2.0


class ClockWatch:
    """Calls `on_step(seconds)` when wall time has moved by more than monotonic time did."""

    def __init__(self, clock: Clock, on_step: Callable[[float], None], every_seconds: float = 1.0) -> None:
        self._clock = clock
        self._on_step = on_step
        self._every_seconds = every_seconds
        self._last = Moment.now(clock)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch, on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns when the thread has ended."""
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """Compare the clocks once."""
        now = Moment.now(self._clock)
        step = (now.wall_ms - self._last.wall_ms) / 1000 - (now.monotonic - self._last.monotonic)
        self._last = now
        if abs(step) > STEP_SECONDS:
            self._on_step(step)

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            try:
                self.look()
            except Exception:  # the next step must be handled too
                log.exception("clock step not fully handled")
