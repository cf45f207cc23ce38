"""Ways to ask a cluster that several collectors share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from collectors.kafka_client.protocol import Connection, Deadline
from lagwatch.errors import SourceError

T = TypeVar("T")


async def ask_any(connection: Connection, request: Any, deadline: Deadline) -> Any:
    """The answer of the first broker that gives one."""
    return await _first(connection, lambda node, until: connection.ask(node, request, until), deadline)


async def refresh_from_any(connection: Connection, deadline: Deadline) -> None:
    """Learn which brokers there are now."""
    await _first(connection, connection.refresh, deadline)


async def _first(connection: Connection, ask: Callable[[int, Deadline], Awaitable[T]], deadline: Deadline) -> T:
    """Brokers in turn until one answers; a hung one costs its share of the time left. Raises SourceError."""
    reasons = []
    nodes = connection.nodes()
    for tried, node in enumerate(nodes):
        try:
            return await ask(node, deadline.sooner(deadline.left() / (len(nodes) - tried)))
        except SourceError as error:
            reasons.append(f"broker {node}: {error}")
    raise SourceError("no broker answered (" + "; ".join(reasons) + ")")
