"""Injectable clocks: the system clock, a settable clock for tests, and a wall clock that ignores steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for durations; never mix the two."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump in either direction."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""


class SystemClock:
    """The clock of this host."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SettableClock:
    """A clock that moves only when `advance` or `step_wall` is called."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic = 1000.0

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._wall_ms += round(seconds * 1000)
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock only, as an administrator or NTP does."""
        self._wall_ms += round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks: wall time to record, monotonic time to measure durations."""

    wall_ms: int
    monotonic: float

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        """The current instant."""
        return cls(clock.wall_ms(), clock.monotonic())


STEP_MS = 2000  # a larger difference between the wall and the monotonic clock is a step, not drift


class SteadyClock:
    """Wall time without steps: it continues evenly when the wall clock is set.

    `stepped_ms` is the step of the wall clock that the last call of `at` detected.
    """

    def __init__(self) -> None:
        self._last: Moment | None = None
        self._skew_ms = 0
        self.stepped_ms = 0

    def at(self, now: Moment) -> int:
        """The steady time of a moment in ms; call it with moments in order."""
        self.stepped_ms = 0
        if self._last is not None:
            elapsed_ms = (now.monotonic - self._last.monotonic) * 1000
            step_ms = round(now.wall_ms - self._last.wall_ms - elapsed_ms)
            if abs(step_ms) > STEP_MS:
                self.stepped_ms = step_ms
                self._skew_ms -= step_ms
        self._last = now
        return now.wall_ms + self._skew_ms

    def resume(self, steady_ms: int, wall_ms: int) -> int:
        """Continue from a moment that a previous process recorded; steps of the wall clock since then are not detected.

        Returns the step of the wall clock, in ms, since the moment before.
        """
        before_ms, self._skew_ms, self._last = self._skew_ms, steady_ms - wall_ms, None
        return before_ms - self._skew_ms
