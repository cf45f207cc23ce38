"""Finds the JMX endpoints of a cluster from the configuration and the cluster's metadata."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collectors.kafka_client.any_broker import refresh_brokers
from collectors.kafka_client.connection_interface import Connection, Deadline
from lagwatch.errors import SourceError

_KEEP_SECONDS = 600.0  # a broker that left the metadata is still queried, and reported down, for this long


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The JMX port of one node. `target` is its name in the `source` table."""

    target: str
    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ConfiguredEndpoints:
    """Endpoints in the configuration: by node, and the port of brokers that are not listed.

    `{broker}` in the port is the broker's id, for hosts with several brokers.
    """

    brokers: Mapping[int, tuple[str, int]]
    controllers: Mapping[int, tuple[str, int]]
    port: str | None = None


def port_of(pattern: str, broker: int) -> int:
    """`9999`, or `99{broker}` with the id filled in. A port out of range fails only when that broker is queried."""
    return int(pattern.replace("{broker}", str(broker)))


class Endpoints:
    """The endpoints of a cluster. Brokers that are not configured are found through the metadata."""

    def __init__(
        self,
        configured: ConfiguredEndpoints,
        connection: Connection | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configured = configured
        self._connection = connection
        self._monotonic = monotonic
        self.failure_reason = "none is listed"  # why `find` found none
        self._hosts: dict[int, tuple[str, float]] = {}  # by broker: host, and when the metadata last listed it

    def find(self, seconds: float) -> list[Endpoint]:
        """All endpoints. Blocks `seconds` at most; if no broker responds, uses the hosts of the last response."""
        if self._connection is not None and self._configured.port is not None:
            self._refresh_hosts(self._connection, seconds)
        found = [Endpoint(f"broker {node}", node, *where) for node, where in sorted(self._configured.brokers.items())]
        for node, (host, _) in sorted(self._hosts.items()):
            if node not in self._configured.brokers and self._configured.port is not None:
                found.append(Endpoint(f"broker {node}", node, host, port_of(self._configured.port, node)))
        # A node with both roles is one JVM: it is queried once, as a broker.
        brokers = {endpoint.node for endpoint in found}
        controllers = [item for item in sorted(self._configured.controllers.items()) if item[0] not in brokers]
        return found + [Endpoint(f"controller {node}", node, *where) for node, where in controllers]

    def _refresh_hosts(self, connection: Connection, seconds: float) -> None:
        async def fetch_addresses(deadline: Deadline) -> dict[int, tuple[str, int]]:
            await refresh_brokers(connection, deadline)
            return connection.addresses()

        now = self._monotonic()
        try:
            self._hosts |= {node: (host, now) for node, (host, _) in connection.run(fetch_addresses, seconds).items()}
        except SourceError as error:
            self.failure_reason = str(error)
            return
        self._hosts = {node: host for node, host in self._hosts.items() if now - host[1] < _KEEP_SECONDS}
