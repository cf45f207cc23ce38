"""Tries what the commits job does: reads a little of every partition of the offsets topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import ask_any
from collectors.kafka_client.offsets_fetch import OFFSETS_TOPIC, OUT_OF_RANGE
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.fetch import decode_fetch
from lagwatch.errors import SourceError

_UNKNOWN_TOPIC = 3
_A_LITTLE = 1  # a broker sends one whole batch all the same


async def try_offsets_topic(
    connection: Connection, brokers: Collection[int], deadline: Deadline
) -> list[tuple[int, str]] | None:
    """The error code of each partition led by these brokers; None when there is no offsets topic yet. Raises SourceError."""
    [topic] = (await ask_any(connection, wire.named_topics_request([OFFSETS_TOPIC]), deadline)).topics
    if topic.error_code == _UNKNOWN_TOPIC:
        return None
    if topic.error_code:
        return [(topic.error_code, OFFSETS_TOPIC)]
    led: dict[int, list[int]] = defaultdict(list)
    for part in topic.partitions:
        if part.leader_id in brokers:
            led[part.leader_id].append(part.partition_index)
    answers = await connection.gather([_try(connection, broker, led[broker], deadline) for broker in led])
    for answer in answers:
        if isinstance(answer, SourceError):
            raise answer
    return [pair for answer in answers if not isinstance(answer, SourceError) for pair in answer]


async def _try(connection: Connection, broker: int, partitions: list[int], deadline: Deadline) -> list[tuple[int, str]]:
    request = wire.fetch_request(
        OFFSETS_TOPIC, dict.fromkeys(partitions, 0), most_bytes=_A_LITTLE, partition_bytes=_A_LITTLE
    )
    answer = decode_fetch((await connection.ask(broker, request, deadline)).body)
    if answer.error:
        raise SourceError(f"broker {broker}: {wire.error_words(answer.error)}")
    # Kafka asks for permission first: whoever is told that a position is too low may read the others.
    return [
        (0 if part.error == OUT_OF_RANGE else part.error, f"{OFFSETS_TOPIC}/{part.partition}")
        for part in answer.partitions
    ]
