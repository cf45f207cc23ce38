"""Rates: time enters, how many records are due leaves. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

_SAVED_SECONDS = 1.0


@dataclass(slots=True)
class Rate:
    """So many a second. What was not taken is saved up for a second at most: a pause is not made up by a burst."""

    per_second: float
    _due: float = field(default=0.0, init=False)
    _asked: float | None = field(default=None, init=False)

    def due(self, now: float) -> int:
        """How many are due now, none at the first call; they count as taken."""
        elapsed = 0.0 if self._asked is None else max(0.0, now - self._asked)
        self._asked = now
        self._due = min(self._due + elapsed * self.per_second, max(1.0, self.per_second * _SAVED_SECONDS))
        whole = int(self._due)
        self._due -= whole
        return whole


@dataclass(slots=True)
class Every:
    """Something done at once and then again and again, so many seconds apart."""

    seconds: float
    _last: float | None = field(default=None, init=False)

    def is_due(self, now: float) -> bool:
        """Whether it is time; then it counts as done."""
        if self._last is not None and now - self._last < self.seconds:
            return False
        self._last = now
        return True

    def missed(self) -> None:
        """It was due, but could not be done: it is due again at once."""
        self._last = None


def check_above_zero(**values: float) -> None:
    """Raise ValueError that names the first value that is not above zero."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be above zero, not {value}")
