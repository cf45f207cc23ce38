"""Passes queries from the pipeline to the job that sends them."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class LatestValue(Generic[T]):
    """A mailbox for one value: a new value replaces one that was not taken."""

    def __init__(self) -> None:
        self._held: T | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the last value was not taken yet."""
        return self._held is not None

    def put(self, value: T) -> None:
        """Replace the value."""
        self._held = value

    def take(self) -> T | None:
        """Remove and return the value; None if there is none."""
        held, self._held = self._held, None
        return held
