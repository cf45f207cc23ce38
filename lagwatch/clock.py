"""The clock as something that can be handed over: the system's, and one that tests set."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for durations; the two must never be mixed."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump in either direction."""

    def monotonic(self) -> float:
        """Seconds that only ever grow."""


class SystemClock:
    """The clock of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SettableClock:
    """A clock that stands still until it is moved."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic = 1000.0

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move."""
        self._wall_ms += round(seconds * 1000)
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock only, as an administrator or a leap of NTP does."""
        self._wall_ms += round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks: wall time to write down, monotonic time to measure with."""

    wall_ms: int
    monotonic: float

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        """This instant."""
        return cls(clock.wall_ms(), clock.monotonic())


STEP_MS = 2000  # wall and monotonic clock drift apart by less in any time between two polls


class SteadyClock:
    """Wall time that nobody sets: goes on evenly when the wall clock is stepped.

    `stepped_ms` is by how much the wall clock was found set at the last look.
    """

    def __init__(self) -> None:
        self._last: Moment | None = None
        self._skew_ms = 0
        self.stepped_ms = 0

    def at(self, now: Moment) -> int:
        """The steady time of a moment, in ms; moments must come in order."""
        self.stepped_ms = 0
        if self._last is not None:
            passed_ms = (now.monotonic - self._last.monotonic) * 1000
            step_ms = round(now.wall_ms - self._last.wall_ms - passed_ms)
            if abs(step_ms) > STEP_MS:
                self.stepped_ms = step_ms
                self._skew_ms -= step_ms
        self._last = now
        return now.wall_ms + self._skew_ms

    def resume(self, steady_ms: int, wall_ms: int) -> None:
        """Go on from a moment of an earlier life; what the wall clock did in between is not known."""
        self._skew_ms, self._last = steady_ms - wall_ms, None
