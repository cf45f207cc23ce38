"""Where the nodes' JMX ports are: settings and the cluster's metadata enter, endpoints leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collectors.kafka_client.any_broker import refresh_from_any
from collectors.kafka_client.protocol import Connection, Deadline
from lagwatch.errors import SourceError

_GONE_SECONDS = 600.0  # a broker that left the metadata is asked, and told to be down, for so long


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The JMX port of one node. `target` is its name in the `source` table."""

    target: str
    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Listed:
    """Endpoints as the settings have them: by node, and the port of brokers that are not listed.

    `{broker}` in the port is the broker's id, for hosts that run several.
    """

    brokers: Mapping[int, tuple[str, int]]
    controllers: Mapping[int, tuple[str, int]]
    port: str | None = None


def port_of(pattern: str, broker: int) -> int:
    """`9999`, or `99{broker}` with the id in place. An id that makes no port fails when that broker alone is asked."""
    return int(pattern.replace("{broker}", str(broker)))


class Endpoints:
    """The endpoints of a cluster. Brokers that are not listed are found where the metadata says they are."""

    def __init__(
        self,
        listed: Listed,
        connection: Connection | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listed = listed
        self._connection = connection
        self._monotonic = monotonic
        self.why_none = "none is listed"  # why no endpoint was found, when none was
        self._hosts: dict[int, tuple[str, float]] = {}  # by broker: host, and when the metadata last had it

    def find(self, seconds: float) -> list[Endpoint]:
        """All endpoints. Blocks so long at most; when no broker answers, the hosts are the last known ones."""
        if self._connection is not None and self._listed.port is not None:
            self._learn(self._connection, seconds)
        found = [Endpoint(f"broker {node}", node, *where) for node, where in sorted(self._listed.brokers.items())]
        for node, (host, _) in sorted(self._hosts.items()):
            if node not in self._listed.brokers and self._listed.port is not None:
                found.append(Endpoint(f"broker {node}", node, host, port_of(self._listed.port, node)))
        # A node that is both is one JVM: asked once, as a broker.
        brokers = {endpoint.node for endpoint in found}
        controllers = [item for item in sorted(self._listed.controllers.items()) if item[0] not in brokers]
        return found + [Endpoint(f"controller {node}", node, *where) for node, where in controllers]

    def _learn(self, connection: Connection, seconds: float) -> None:
        async def ask(deadline: Deadline) -> dict[int, tuple[str, int]]:
            await refresh_from_any(connection, deadline)
            return connection.addresses()

        now = self._monotonic()
        try:
            self._hosts |= {node: (host, now) for node, (host, _) in connection.run(ask, seconds).items()}
        except SourceError as error:
            self.why_none = str(error)
            return
        self._hosts = {node: known for node, known in self._hosts.items() if now - known[1] < _GONE_SECONDS}
