"""Connections to brokers that exist only as a function: every response is there at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from collectors.kafka_client.connection_interface import Deadline
from lagwatch.errors import SourceError

T = TypeVar("T")
Respond = Callable[[int, Any], Any]  # a broker and a request; raises SourceError where the broker is down


class FakeConnection:
    """A Connection (collectors/kafka_client/connection_interface.py) over a function.

    `brokers` holds the address of each broker; a test may change it. `refreshed` lists brokers used for a refresh.
    """

    def __init__(self, respond: Respond, nodes: Sequence[int] = (1, 2, 3)) -> None:
        self.brokers = {node: (f"kafka{node}", 9092) for node in nodes}
        self.refreshed: list[int] = []
        self._respond = respond

    def run(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], seconds: float) -> T:
        try:
            work(Deadline.after(seconds)).send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        raise AssertionError("a coroutine waits for something")

    async def request(self, node: int | str, request: Any, deadline: Deadline) -> Any:
        if deadline.remaining() <= 0:
            raise SourceError("no time left in this poll")
        return self._respond(int(node), request)

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T | SourceError]:
        found: list[T | SourceError] = []
        for work in works:
            try:
                found.append(await work)
            except SourceError as error:
                found.append(error)
        return found

    async def refresh(self, node: int | str, deadline: Deadline) -> None:  # noqa: ARG002
        self.refreshed.append(int(node))

    def supports(self, request: Any) -> bool:  # noqa: ARG002
        return True

    def nodes(self) -> list[int]:
        return sorted(self.brokers)

    def addresses(self) -> dict[int, tuple[str, int]]:
        return dict(self.brokers)
