"""One question to one node, without a client library: a loopback port enters, what the node answers leaves.

A client library retries, caches and starts threads, all of which would blur "does this node answer now?". Both requests
are written out by hand in the oldest version that every Kafka from 0.10 to 4.x understands.
"""

from __future__ import annotations

import socket
import struct

_METADATA, _API_VERSIONS = 3, 18
_NO_TOPICS = struct.pack(">i", 0)


def answers(port: int, timeout: float = 1.0) -> bool:
    """Whether a broker or controller answers an ApiVersions request."""
    return _ask(port, _API_VERSIONS, 0, b"", timeout) is not None


def brokers_known_to(port: int, timeout: float = 1.0) -> frozenset[int] | None:
    """The ids of the brokers this broker calls alive (registered and not fenced); None when it does not answer."""
    answer = _ask(port, _METADATA, 1, _NO_TOPICS, timeout)
    return None if answer is None else broker_ids(answer)


def broker_ids(metadata: bytes) -> frozenset[int]:
    """The broker ids in the body of a Metadata answer, version 1: `[id host port rack]`, strings after their length."""
    (count,) = struct.unpack_from(">i", metadata)
    at, ids = 4, set[int]()
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", metadata, at)
        at += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", metadata, at)
        at += 2 + max(rack_length, 0)
        ids.add(node_id)
    return frozenset(ids)


def _ask(port: int, api: int, version: int, body: bytes, timeout: float) -> bytes | None:
    """Send one request; the answer's body, or None when nobody listens, answers in time, or answers in full."""
    correlation = 7
    message = struct.pack(">hhih", api, version, correlation, -1) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(message)) + message)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                answer = stream.read(size)
    except (OSError, struct.error):
        return None
    return answer[4:] if len(answer) == size else None
