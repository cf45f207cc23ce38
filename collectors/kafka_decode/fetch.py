"""Decodes Fetch responses: the position of each partition's records in the body, and its end offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from collectors.kafka_decode.reader import WireReader


class FetchedPartition(NamedTuple):
    """One partition of a response; its records are between `start` and `end` of the body."""

    partition: int
    error: int
    end_offset: int
    start: int
    end: int
    topic: str
    aborted: list[tuple[int, int]]  # producer id and first offset of each aborted transaction


@dataclass(frozen=True, slots=True)
class DecodedFetch:
    """A whole response."""

    body: bytes
    error: int
    partitions: list[FetchedPartition]


def decode_fetch(body: bytes) -> DecodedFetch:
    """Decode a Fetch response, version 12."""
    reader = WireReader(body)
    reader.number(4)  # throttle time
    error = reader.number(2)
    reader.number(4)  # session id: always 0 without a session
    partitions: list[FetchedPartition] = []
    for _ in range(reader.length()):
        topic = reader.name().decode()
        for _ in range(reader.length()):
            partition, code, end_offset = reader.number(4), reader.number(2), reader.number(8)
            reader.number(16)  # last stable offset, log start offset
            aborted = []
            for _ in range(reader.length()):
                aborted.append((reader.number(8), reader.number(8)))
                reader.skip_tags()
            reader.number(4)  # preferred read replica
            size = reader.length()
            start, reader.pos = reader.pos, reader.pos + size
            partitions.append(FetchedPartition(partition, code, end_offset, start, reader.pos, topic, aborted))
            reader.skip_tags()
        reader.skip_tags()
    return DecodedFetch(body, error, partitions)
