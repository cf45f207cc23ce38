"""Restarts brokers of the demo that the user killed, after a delay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class Restartable(Protocol):
    """What the restarter needs of a node."""

    @property
    def id(self) -> int:
        """The node id."""

    @property
    def running(self) -> bool:
        """Whether its process runs."""

    def launch(self) -> None:
        """Start the process without waiting."""


class BrokerRestarter:
    """Restarts nodes that have been down for `down_seconds`; call `restart_due` about every second.

    The default is long enough to see the effect of a missing broker, and short enough to wait for the recovery.
    """

    def __init__(self, nodes: Callable[[], Sequence[Restartable]], down_seconds: float = 30.0) -> None:
        self.down_seconds = down_seconds
        self._nodes = nodes
        self._down_since: dict[int, float] = {}

    def restart_due(self, now: float) -> list[int]:
        """Restart the nodes that are due and return their ids."""
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
        """Seconds until a node that is down is restarted; None for a running one."""
        since = self._down_since.get(node_id)
        return None if since is None else max(0.0, since + self.down_seconds - now)
