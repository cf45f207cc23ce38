"""Ports on loopback."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from lagwatch.demo.kafka_layout import PORTS, port_chooser

_WORKERS = 8  # more pytest workers than that would share ports again
_refusing: list[socket.socket] = []


def _ports_of(worker: str) -> range:
    """The ports of one pytest worker (`gw3`): no other worker takes the port of a server that is down for a while."""
    if not worker:
        return PORTS
    number = int(worker.removeprefix("gw")) % _WORKERS
    share = len(PORTS) // _WORKERS
    return PORTS[number * share : (number + 1) * share]


server_port = port_chooser(_ports_of(os.environ.get("PYTEST_XDIST_WORKER", "")))
"""A free port for a server, each only once in this process."""


def closed_port() -> int:
    """A port that refuses connections. It stays bound without a listener, so that no other process can listen on it."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    _refusing.append(holder)
    return int(holder.getsockname()[1])


def is_connected(pid: int, port: int) -> bool:
    """Whether the process has a connection to this port, established or not."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(str(descriptor.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return any(int(row[2].split(":")[1], 16) == port and f"socket:[{row[9]}]" in sockets for row in rows)
