"""What a collector needs from its connection to a cluster, and the deadline that its requests share.

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
    """The time on the monotonic clock by which a poll must be done."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, self.at - time.monotonic())

    def at_most(self, seconds: float) -> Deadline:
        """This deadline, or the one `seconds` from now if that is earlier."""
        return Deadline(min(self.at, time.monotonic() + seconds))


class Connection(Protocol):
    """Sends requests to the brokers of one cluster, for one thread at a time.

    `run` is the only blocking call; the coroutine it runs uses the others.
    """

    def run(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Run the coroutine, connecting first if needed. Raises SourceError; blocks `seconds` and a little more."""

    async def request(self, node: int | str, request: Any, deadline: Deadline) -> Any:
        """Send one request to one broker. Raises SourceError with a reason for operators."""

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T | SourceError]:
        """Run coroutines concurrently; each yields its result or its own SourceError."""

    async def refresh(self, node: int | str, deadline: Deadline) -> None:
        """Update the brokers' addresses from the metadata of one broker. Raises SourceError."""

    def supports(self, request: Any) -> bool:
        """Whether the brokers support this request in a usable version."""

    def nodes(self) -> list[int]:
        """The ids of the brokers in the latest metadata."""

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Host and port by broker id."""
