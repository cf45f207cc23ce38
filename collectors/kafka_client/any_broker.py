"""Sends a request to any broker of a cluster: tries them in turn until one responds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from collectors.kafka_client.connection_interface import Connection, Deadline
from lagwatch.errors import SourceError

T = TypeVar("T")


async def request_any(connection: Connection, request: Any, deadline: Deadline) -> Any:
    """The response of the first broker that gives one. Raises SourceError."""
    return await _try_in_turn(connection, lambda node, until: connection.request(node, request, until), deadline)


async def refresh_brokers(connection: Connection, deadline: Deadline) -> None:
    """Update the connection's list of brokers and addresses. Raises SourceError."""
    await _try_in_turn(connection, connection.refresh, deadline)


async def _try_in_turn(connection: Connection, send: Callable[[int, Deadline], Awaitable[T]], deadline: Deadline) -> T:
    """Try brokers in turn until one responds; a hung broker takes its share of the remaining time."""
    reasons = []
    nodes = connection.nodes()
    for tried, node in enumerate(nodes):
        try:
            return await send(node, deadline.at_most(deadline.remaining() / (len(nodes) - tried)))
        except SourceError as error:
            reasons.append(f"broker {node}: {error}")
    raise SourceError("no broker answered (" + "; ".join(reasons) + ")")
