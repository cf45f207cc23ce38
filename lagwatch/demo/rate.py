"""Rate limiting: how many records are due at a given time. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

_BURST_SECONDS = 1.0


@dataclass(slots=True)
class Rate:
    """A token bucket of one second: a pause is not compensated by a larger burst."""

    per_second: float
    _due: float = field(default=0.0, init=False)
    _last: float | None = field(default=None, init=False)

    def due(self, now: float) -> int:
        """Take and return the number due now; none at the first call."""
        elapsed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        self._due = min(self._due + elapsed * self.per_second, max(1.0, self.per_second * _BURST_SECONDS))
        whole = int(self._due)
        self._due -= whole
        return whole


@dataclass(slots=True)
class Every:
    """A periodic action: due at once, then every `seconds`."""

    seconds: float
    _last: float | None = field(default=None, init=False)

    def is_due(self, now: float) -> bool:
        """Whether it is due; if so it counts as done."""
        if self._last is not None and now - self._last < self.seconds:
            return False
        self._last = now
        return True

    def missed(self) -> None:
        """Make it due again at once, because it could not be done."""
        self._last = None


def check_above_zero(**values: float) -> None:
    """Raise ValueError that names the first value that is not above zero."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be above zero, not {value}")
