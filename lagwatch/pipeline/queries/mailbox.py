"""Where the pipeline leaves its questions for the job that asks them."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class LatestValue(Generic[T]):
    """Holds the newest questions until they are taken."""

    def __init__(self) -> None:
        self._held: T | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether nobody has taken what was put last."""
        return self._held is not None

    def put(self, questions: T) -> None:
        """These instead of what was wanted before."""
        self._held = questions

    def take(self) -> T | None:
        """What is wanted, once."""
        held, self._held = self._held, None
        return held
