"""Requests and responses encoded and decoded without kafka-python, compared with kafka-python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from collectors.kafka_client import requests as wire

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
PARTITIONS = st.lists(st.integers(0, 2**31 - 1), max_size=200)
TOPICS = st.dictionaries(NAMES, PARTITIONS, max_size=5)


def _encoded(request: Any, version: int) -> bytes:
    request.API_VERSION = version
    request.with_header(correlation_id=7, client_id="lagwatch")
    return bytes(request.encode(framed=True, header=True))


@pytest.mark.parametrize("version", range(6, 11))
@pytest.mark.parametrize("committed_only", [False, True])
@given(partitions=TOPICS, timestamp=st.sampled_from([wire.EARLIEST, wire.LATEST, None]))
def test_a_request_for_offsets_is_what_kafka_python_would_send(
    version: int, committed_only: bool, partitions: dict[str, list[int]], timestamp: int | None
) -> None:
    times = np.arange(sum(map(len, partitions.values())), dtype=np.int64) * 3_600_000  # or a time for each
    theirs_at = iter(times.tolist() if timestamp is None else [timestamp] * len(times))
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    theirs = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed_only),
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=i, current_leader_epoch=-1, timestamp=next(theirs_at)) for i in indexes
                ],
            )
            for name, indexes in partitions.items()
        ],
        timeout_ms=1234,
    )
    columns = {name: np.array(indexes, np.int32) for name, indexes in partitions.items()}

    targets = times if timestamp is None else timestamp
    ours = wire.list_offsets_request(columns, targets, committed_only=committed_only, timeout_ms=1234)

    assert _encoded(ours, version) == _encoded(theirs, version)


@pytest.mark.parametrize("version", range(4))
@given(topics=TOPICS, user_data=st.none() | st.binary(max_size=20))
def test_an_assignment_is_decoded_as_it_was_encoded(
    version: int, topics: dict[str, list[int]], user_data: bytes | None
) -> None:
    part = ConsumerProtocolAssignment.TopicPartition
    parts = [part(topic=name, partitions=indexes) for name, indexes in topics.items()]
    data = ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data, version=version).encode()

    decoded = wire.decode_assignment(data)

    assert decoded == [(name, tuple(indexes)) for name, indexes in topics.items()]
    assert all(wire.decode_assignment(data[:end]) == [] for end in range(len(data)))


@given(st.binary(max_size=60))
def test_bytes_of_another_protocol_never_raise(data: bytes) -> None:
    wire.decode_assignment(data)


def test_a_request_for_hundreds_of_partitions_is_what_kafka_python_would_send() -> None:
    """Lengths above 127 take two bytes."""
    partitions = {"t" * 200: list(range(300))}
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    parts = [partition(partition_index=i, current_leader_epoch=-1, timestamp=wire.LATEST) for i in range(300)]
    theirs = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[topic(name="t" * 200, partitions=parts)], timeout_ms=1234
    )
    columns = {name: np.array(indexes, np.int32) for name, indexes in partitions.items()}
    ours = wire.list_offsets_request(columns, wire.LATEST, committed_only=False, timeout_ms=1234)
    assert _encoded(ours, 10) == _encoded(theirs, 10)
