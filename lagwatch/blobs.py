"""Packs byte strings into one: a line of JSON that describes them, then the bytes. Checkpoints are stored this way."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any


def pack_blobs(head: Any, blobs: Iterable[bytes]) -> bytes:
    """The head as a line of JSON, then the blobs. The head must hold the length of each blob."""
    return b"".join((json.dumps(head).encode(), b"\n", *blobs))


def unpack_blobs(body: bytes) -> tuple[Any, Callable[[int], bytes]]:
    """The head, and a function that returns the next `size` bytes."""
    stream = io.BytesIO(body)
    head = json.loads(stream.readline())
    return head, stream.read
