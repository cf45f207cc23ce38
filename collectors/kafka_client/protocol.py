"""What a collector needs of its connections to a cluster, and the deadline that its requests share.

KafkaConnection is the implementation; tests pass others that respond from memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lagwatch.errors import SourceError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock by which all requests of a poll must be done."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - time.monotonic())

    def sooner(self, seconds: float) -> Deadline:
        """The earlier of this deadline and the moment `seconds` from now."""
        return Deadline(min(self.at, time.monotonic() + seconds))


class Connection(Protocol):
    """Sends requests to the brokers of one cluster, for one thread at a time.

    `run` is the only blocking call; the coroutine it runs uses the others.
    """

    def run(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Run the coroutine, connecting first if necessary. Raises SourceError; blocks `seconds` and a little more."""

    async def ask(self, node: int | str, request: Any, deadline: Deadline) -> Any:
        """Send one request to one broker and return the response. Raises SourceError."""

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T | SourceError]:
        """Run coroutines concurrently; each yields its result or its own SourceError."""

    async def refresh(self, node: int | str, deadline: Deadline) -> None:
        """Update the brokers' addresses from one broker. Raises SourceError."""

    def supports(self, request: Any) -> bool:
        """Whether the brokers support this request in a usable version."""

    def nodes(self) -> list[int]:
        """Ids of the brokers with a known address."""

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Host and port of each of them."""
