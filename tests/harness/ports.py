"""Ports on loopback."""

from __future__ import annotations

import socket
from pathlib import Path


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
