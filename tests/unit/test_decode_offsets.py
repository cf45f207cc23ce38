"""The columnar decoders return what kafka-python's own classes encoded, for any response."""

from __future__ import annotations

import base64
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.consumer import ListOffsetsResponse, OffsetFetchResponse
from kafka.protocol.metadata import MetadataResponse

from collectors.kafka_decode.metadata import decode_metadata
from collectors.kafka_decode.offsets import decode_list_offsets, decode_log_dirs, decode_offset_fetch
from collectors.kafka_decode.reader import WireReader

names = st.text(min_size=1, max_size=12)
offsets = st.integers(-1, 2**63 - 1)
errors = st.sampled_from([0, 0, 0, 3, 16])
notes = st.sampled_from(["", "", "", None, "seen by π", "x" * 200])
nodes = st.integers(0, 2**31 - 1)


def numbered(values: st.SearchStrategy[Any], most: int = 20) -> st.SearchStrategy[list[tuple[int, Any]]]:
    """Distinct partition numbers in any order, each with a value; sizes on both sides of the fast path's threshold."""
    return st.dictionaries(st.integers(0, 2**19), values, max_size=most).map(lambda by: list(by.items()))


@given(
    st.dictionaries(
        names,
        st.tuples(st.dictionaries(names, numbered(st.tuples(offsets, notes, errors)), max_size=3), errors),
        max_size=4,
    ),
    st.sampled_from([8, 9]),
)
def test_commits_are_decoded_as_they_were_encoded(groups: dict[str, Any], version: int) -> None:
    group_type = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_type = group_type.OffsetFetchResponseTopics
    partition_type = topic_type.OffsetFetchResponsePartitions
    answer = OffsetFetchResponse(
        throttle_time_ms=7,
        groups=[
            group_type(
                group_id=group,
                topics=[
                    topic_type(
                        name=topic,
                        partitions=[
                            partition_type(
                                partition_index=p,
                                committed_offset=offset,
                                committed_leader_epoch=4,
                                metadata=note,
                                error_code=error,
                            )
                            for p, (offset, note, error) in partitions
                        ],
                    )
                    for topic, partitions in topics.items()
                ],
                error_code=group_error,
            )
            for group, (topics, group_error) in groups.items()
        ],
    )

    commits = decode_offset_fetch(bytes(answer.encode(version=version)))

    assert commits.groups == list(groups)
    assert commits.group_errors == {group: error for group, (_, error) in groups.items() if error}
    decoded = [
        (commits.groups[g], commits.topics[t], p, o, e)
        for g, t, p, o, e in zip(
            commits.group_code, commits.topic_code, commits.partition, commits.offset, commits.error, strict=True
        )
    ]
    assert decoded == [
        (group, topic, p, offset, error)
        for group, (topics, _) in groups.items()
        for topic, partitions in topics.items()
        for p, (offset, _, error) in partitions
    ]


@given(st.dictionaries(names, numbered(st.tuples(offsets, offsets, errors)), max_size=4), st.sampled_from([6, 7, 10]))
def test_offsets_are_decoded_as_they_were_encoded(topics: dict[str, Any], version: int) -> None:
    topic_type = ListOffsetsResponse.ListOffsetsTopicResponse
    partition_type = topic_type.ListOffsetsPartitionResponse
    answer = ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            topic_type(
                name=topic,
                partitions=[
                    partition_type(partition_index=p, error_code=error, timestamp=time, offset=offset, leader_epoch=2)
                    for p, (offset, time, error) in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
    )

    decoded = decode_list_offsets(bytes(answer.encode(version=version)))

    columns = (decoded.topic_code, decoded.partition, decoded.offset, decoded.time, decoded.error)
    assert [(decoded.topics[t], *rest) for t, *rest in zip(*columns, strict=True)] == [
        (topic, p, offset, time, error)
        for topic, partitions in topics.items()
        for p, (offset, time, error) in partitions
    ]


replica_sets = st.lists(nodes, min_size=0, max_size=4, unique=True).flatmap(
    lambda replicas: st.tuples(st.just(replicas), st.sampled_from([replicas, replicas, replicas[1:], replicas[:1], []]))
)


@st.composite
def topic_partitions(draw: st.DrawFn) -> list[tuple[int, int, list[int], list[int]]]:
    """Either alike, as healthy topics are, or mixed; partition numbers from 0 in any order."""
    count = draw(st.integers(0, 12))
    one = draw(replica_sets)
    alike = draw(st.booleans())
    order = draw(st.permutations(range(count)))
    return [(p, draw(nodes | st.just(-1)), *(one if alike else draw(replica_sets))) for p in order]


@given(
    st.dictionaries(names, st.tuples(topic_partitions(), errors, st.uuids()), max_size=4),
    st.dictionaries(nodes, st.tuples(names, st.none() | names), max_size=3),
    st.sampled_from([10, 12]),
)
def test_metadata_is_decoded_as_it_was_encoded(
    topics: dict[str, Any], brokers: dict[int, tuple[str, str | None]], version: int
) -> None:
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition
    broker_type = MetadataResponse.MetadataResponseBroker
    answer = MetadataResponse(
        throttle_time_ms=0,
        brokers=[broker_type(node_id=n, host=h, port=9092, rack=r) for n, (h, r) in brokers.items()],
        cluster_id="abc",
        controller_id=1,
        topics=[
            topic_type(
                error_code=error,
                name=topic,
                topic_id=topic_id,
                is_internal=False,
                partitions=[
                    partition_type(
                        error_code=0,
                        partition_index=p,
                        leader_id=leader,
                        leader_epoch=1,
                        replica_nodes=replicas,
                        isr_nodes=in_sync,
                        offline_replicas=[],
                    )
                    for p, leader, replicas, in_sync in partitions
                ],
                authorized_operations=None,
            )
            for topic, (partitions, error, topic_id) in topics.items()
        ],
        authorized_operations=None,
        error_code=0,
    )

    metadata = decode_metadata(bytes(answer.encode(version=version)))

    assert [(b.node, b.host, b.port, b.rack) for b in metadata.brokers] == [
        (n, h, 9092, r) for n, (h, r) in brokers.items()
    ]
    assert metadata.topics == list(topics)
    assert metadata.topic_ids == [_kafka_id(topic_id) for _, _, topic_id in topics.values()]
    assert metadata.topic_errors == {topic: error for topic, (_, error, _) in topics.items() if error}
    expected = [(topic, *row) for topic, (partitions, _, _) in topics.items() for row in sorted(partitions)]
    assert [metadata.topics[code] for code in metadata.topic_code] == [row[0] for row in expected]
    assert metadata.partition.tolist() == [row[1] for row in expected]
    assert metadata.leader.tolist() == [row[2] for row in expected]
    assert metadata.replicas.tolist() == [len(row[3]) for row in expected]
    assert metadata.in_sync.tolist() == [len(row[4]) for row in expected]
    assert metadata.preferred.tolist() == [row[3][0] if row[3] else -1 for row in expected]
    assert metadata.replica_broker.tolist() == [node for row in expected for node in row[3]]
    missing = [(at, node) for at, row in enumerate(expected) for node in row[3] if node not in row[4]]
    assert list(zip(metadata.missing_row.tolist(), metadata.missing_broker.tolist(), strict=True)) == missing


def _kafka_id(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


@given(
    st.dictionaries(
        names,
        st.tuples(
            st.dictionaries(names, numbered(st.tuples(st.integers(0, 2**60), st.booleans())), max_size=3), errors
        ),
        max_size=3,
    ),
    st.sampled_from([3, 4, 5]),
)
def test_log_dirs_are_decoded_as_they_were_encoded(dirs: dict[str, Any], version: int) -> None:
    result_type = DescribeLogDirsResponse.DescribeLogDirsResult
    topic_type = result_type.DescribeLogDirsTopic
    partition_type = topic_type.DescribeLogDirsPartition
    answer = DescribeLogDirsResponse(
        throttle_time_ms=0,
        error_code=0,
        results=[
            result_type(
                error_code=error,
                log_dir=folder,
                topics=[
                    topic_type(
                        name=topic,
                        partitions=[
                            partition_type(partition_index=p, partition_size=size, offset_lag=0, is_future_key=future)
                            for p, (size, future) in partitions
                        ],
                    )
                    for topic, partitions in topics.items()
                ],
                total_bytes=1000,
                usable_bytes=400,
                is_cordoned=False,
            )
            for folder, (topics, error) in dirs.items()
        ],
    )

    decoded = decode_log_dirs(bytes(answer.encode(version=version)), version)

    rows = zip(decoded.topic_code, decoded.partition, decoded.size, strict=True)
    assert [(decoded.topics[t], p, s) for t, p, s in rows] == [
        (topic, p, size)
        for topics, _ in dirs.values()
        for topic, partitions in topics.items()
        for p, (size, future) in partitions
        if not future
    ]
    assert decoded.dir_errors == {folder: error for folder, (_, error) in dirs.items() if error}
    has_sizes = version >= 4 and bool(dirs)
    assert decoded.total_bytes == (1000 * len(dirs) if has_sizes else None)
    assert decoded.free_bytes == (400 * len(dirs) if has_sizes else None)


@pytest.mark.parametrize("decode", [decode_offset_fetch, decode_list_offsets, decode_metadata])
def test_a_truncated_response_is_an_error_and_not_a_wrong_number(decode: Any) -> None:
    with pytest.raises((IndexError, ValueError)):
        decode(b"\x00\x00\x00\x00\x05\x04abc")


def test_tagged_fields_of_newer_brokers_are_skipped() -> None:
    """A broker may add fields to each record; those that are not known are passed over."""
    listed = b"".join(
        (
            struct.pack(">ihqqi", partition, 0, 1_000 + partition, 50 + partition, 4),
            b"\x01\x05\x03new" if partition == 1 else b"\x00",  # one tag: its number, its size, its bytes
        )[at]
        for partition in range(3)
        for at in range(2)
    )
    body = b"\x00\x00\x00\x00" + b"\x02" + b"\x07orders" + b"\x04" + listed + b"\x00" + b"\x00"

    decoded = decode_list_offsets(body)

    assert decoded.topics == ["orders"]
    assert decoded.partition.tolist() == [0, 1, 2]
    assert decoded.offset.tolist() == [50, 51, 52]
    assert decoded.time.tolist() == [1_000, 1_001, 1_002]


@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 2**31 - 1])
def test_variable_length_numbers_of_any_size_are_read(number: int) -> None:
    encoded, rest = bytearray(), number
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    assert WireReader(bytes(encoded)).uvarint() == number


def test_metadata_with_more_than_127_offline_replicas_is_decoded() -> None:
    """Their count takes two bytes, so the records of the topic are not of one size that is known in advance."""
    topic_type = MetadataResponse.MetadataResponseTopic
    partitions = [
        topic_type.MetadataResponsePartition(
            error_code=0, partition_index=p, leader_id=1, leader_epoch=1, replica_nodes=[1, 2], isr_nodes=[1, 2],
            offline_replicas=list(range(200)),
        )
        for p in range(12)
    ]  # fmt: skip
    topic = topic_type(
        error_code=0, name="t", topic_id=uuid.uuid4(), is_internal=False, partitions=partitions,
        authorized_operations=None,
    )  # fmt: skip
    answer = MetadataResponse(
        throttle_time_ms=0, brokers=[], cluster_id="abc", controller_id=1, topics=[topic], authorized_operations=None,
        error_code=0,
    )  # fmt: skip

    metadata = decode_metadata(bytes(answer.encode(version=12)))

    assert metadata.partition.tolist() == list(range(12))
    assert metadata.in_sync.tolist() == [2] * 12
