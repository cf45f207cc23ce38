"""Brings back brokers that somebody killed: a cluster enters, and after a while it is whole again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class Restartable(Protocol):
    """A node, as far as the nurse is concerned."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def running(self) -> bool:
        """Whether it has a process."""

    def launch(self) -> None:
        """Start it and return at once."""


class BrokerRestarter:
    """Starts a node again when it has been down for so long; `look` is to be called every second or so.

    Long enough that people see what a missing broker does, short enough that they wait for the recovery.
    """

    def __init__(self, nodes: Callable[[], Sequence[Restartable]], down_seconds: float = 30.0) -> None:
        self.down_seconds = down_seconds
        self._nodes = nodes
        self._down_since: dict[int, float] = {}

    def look(self, now: float) -> list[int]:
        """The nodes that were started just now."""
        started = []
        for node in self._nodes():
            if node.running:
                self._down_since.pop(node.id, None)
            elif now - self._down_since.setdefault(node.id, now) >= self.down_seconds:
                node.launch()
                del self._down_since[node.id]
                started.append(node.id)
        return started

    def back_in_seconds(self, node_id: int, now: float) -> float | None:
        """How long until a node that is down is started; None for one that is up."""
        since = self._down_since.get(node_id)
        return None if since is None else max(0.0, since + self.down_seconds - now)
