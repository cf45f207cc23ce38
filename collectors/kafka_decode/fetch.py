"""Kafka's Fetch answer: bytes enter; where each partition's records lie in them, and its end, leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from collectors.kafka_decode.reader import WireReader


class FetchedPartition(NamedTuple):
    """One partition of an answer; its records are between two positions of the body."""

    partition: int
    error: int
    end_offset: int
    start: int
    end: int
    topic: str
    aborted: list[tuple[int, int]]  # producers with the first offset of each transaction they took back


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole answer."""

    body: bytes
    error: int
    partitions: list[FetchedPartition]


def decode_fetch(body: bytes) -> Fetched:
    """The answer to Fetch, version 12."""
    reader = WireReader(body)
    reader.number(4)  # throttle time
    error = reader.number(2)
    reader.number(4)  # session: none was asked for
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
            reader.number(4)  # a replica to read from instead
            size = reader.length()
            start, reader.pos = reader.pos, reader.pos + size
            partitions.append(FetchedPartition(partition, code, end_offset, start, reader.pos, topic, aborted))
            reader.skip_tags()
        reader.skip_tags()
    return Fetched(body, error, partitions)
