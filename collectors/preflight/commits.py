"""Probes read access to the offsets topic by fetching a little of every partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import request_any
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_client.error_codes import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION
from collectors.kafka_decode.fetch import decode_fetch
from lagwatch.errors import SourceError
from lagwatch.kafka_names import OFFSETS_TOPIC

_MIN_BYTES = 1  # a broker returns one whole batch regardless


async def probe_offsets_topic(
    connection: Connection, brokers: Collection[int], deadline: Deadline
) -> list[tuple[int, str]] | None:
    """The error code of each partition led by these brokers; None if there is no offsets topic yet. Raises SourceError."""
    [topic] = (await request_any(connection, requests.named_topics_request([OFFSETS_TOPIC]), deadline)).topics
    if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if topic.error_code:
        return [(topic.error_code, OFFSETS_TOPIC)]
    led: dict[int, list[int]] = defaultdict(list)
    for part in topic.partitions:
        if part.leader_id in brokers:
            led[part.leader_id].append(part.partition_index)
    responses = await connection.gather(
        [_fetch_error_codes(connection, broker, led[broker], deadline) for broker in led]
    )
    for response in responses:
        if isinstance(response, SourceError):
            raise response
    return [pair for response in responses if not isinstance(response, SourceError) for pair in response]


async def _fetch_error_codes(
    connection: Connection, broker: int, partitions: list[int], deadline: Deadline
) -> list[tuple[int, str]]:
    request = requests.fetch_request(
        OFFSETS_TOPIC, dict.fromkeys(partitions, 0), max_bytes=_MIN_BYTES, partition_bytes=_MIN_BYTES
    )
    response = decode_fetch((await connection.request(broker, request, deadline)).body)
    if response.error:
        raise SourceError(f"broker {broker}: {requests.describe_error_code(response.error)}")
    # Kafka checks the permission first: an offset out of range means that reading is allowed.
    return [
        (0 if part.error == OFFSET_OUT_OF_RANGE else part.error, f"{OFFSETS_TOPIC}/{part.partition}")
        for part in response.partitions
    ]
