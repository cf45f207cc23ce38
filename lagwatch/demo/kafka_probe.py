"""Sends single requests to one node without a client library.

A client library retries, caches and starts threads, which would blur whether this node responds now. Both requests are
encoded by hand in a version that every Kafka from 0.10 to 4.x supports.
"""

from __future__ import annotations

import socket
import struct

_METADATA, _API_VERSIONS = 3, 18
_NO_TOPICS = struct.pack(">i", 0)


def responds(port: int, timeout: float = 1.0) -> bool:
    """Whether a broker or controller responds to an ApiVersions request."""
    return _request(port, _API_VERSIONS, 0, b"", timeout) is not None


def brokers_known_to(port: int, timeout: float = 1.0) -> frozenset[int] | None:
    """The ids of the live brokers (registered and not fenced) in this broker's metadata; None without a response."""
    response = _request(port, _METADATA, 1, _NO_TOPICS, timeout)
    return None if response is None else broker_ids(response)


def broker_ids(metadata: bytes) -> frozenset[int]:
    """The broker ids in the body of a Metadata response, version 1: `[id host port rack]`, length-prefixed strings."""
    (count,) = struct.unpack_from(">i", metadata)
    at, ids = 4, set[int]()
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", metadata, at)
        at += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", metadata, at)
        at += 2 + max(rack_length, 0)
        ids.add(node_id)
    return frozenset(ids)


def _request(port: int, api: int, version: int, body: bytes, timeout: float) -> bytes | None:
    """Send one request; returns the response body, or None without a complete response in time."""
    correlation = 7
    message = struct.pack(">hhih", api, version, correlation, -1) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(message)) + message)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                response = stream.read(size)
    except (OSError, struct.error):
        return None
    return response[4:] if len(response) == size else None
