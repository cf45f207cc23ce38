"""Builds requests from kafka-python's message classes and translates Kafka's error codes: the only module that does.

kafka-python's public clients raise for the whole call if one group or partition has an error, just when an operator
needs the rest. This works one level below them (`kafka.net`), where each group and partition has its own error code.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import kafka.errors
import numpy as np
import numpy.typing as npt
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    ListGroupsRequest,
)
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from collectors.kafka_decode.offsets import encode_list_offsets_topics

# kafka-python logs each failed connection, and at DEBUG the bytes it sends, passwords included.
# lagwatch reports failures once, as rows of `source`: kafka-python's own lines are off at every level.
logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)

T = TypeVar("T")

EARLIEST, LATEST = -2, -1
_TOPIC_RESOURCE = 2
_NO_REPLICA = -1
_MAX_NAMES = 5
# Above this version a response identifies topics by id only, and a deleted topic would have no name.
_OFFSET_FETCH_BY_NAME = 9
_LIST_OFFSETS_TIMEOUT = 10  # from this version on the request holds a timeout for the broker
_FETCH_BY_NAME = 12  # Kafka 2.7; above it requests identify topics by id only
OFFSET_FETCH_MANY_GROUPS = 8  # from this version (Kafka 3.0) on one request holds many groups


class ConsumerGroupDescribeRequest(ApiMessage, load_json="collectors.kafka_client.schemas"):  # type: ignore[misc,call-arg]
    """Members of KIP-848 groups; DescribeGroups reports such groups as Dead."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json="collectors.kafka_client.schemas"):  # type: ignore[misc,call-arg]
    """The response."""


class RawResponse:
    """The undecoded body of a response, for the columnar decoders, with the throttle time the connection reads."""

    __slots__ = ("body", "throttle_time_ms", "version")

    def __init__(self, body: bytes, version: int) -> None:
        self.body = body
        self.version = version
        self.throttle_time_ms = int.from_bytes(body[:4], "big")  # the first field of every raw response


class _RawResponseClass:
    """Replaces kafka-python's response class: parses the header as that class does, leaves the body undecoded."""

    def __init__(self, response_class: Any, version: int) -> None:
        self._response_class = response_class
        self._version = version

    def parse_header(self, data: Any) -> Any:
        return self._response_class.parse_header(data)

    def decode(self, data: Any) -> RawResponse:
        return RawResponse(data.read(), self._version)


class _RawRequestHeader(RequestHeader, init=False):  # type: ignore[misc,call-arg]
    """A request header whose response is not decoded."""

    def get_response_class(self) -> Any:
        return _RawResponseClass(super().get_response_class(), self.request_api_version)


class _RawResponseMixin:
    """Makes the response of a request class arrive as bytes, to be decoded to columns instead of 87,000 objects."""

    __slots__ = ()

    def with_header(self, correlation_id: int = 0, client_id: str = "lagwatch") -> None:
        request: Any = self
        request._header = _RawRequestHeader(  # noqa: SLF001  # the slot kafka-python's own method fills
            request_api_key=request.API_KEY,
            request_api_version=request.API_VERSION,
            correlation_id=correlation_id,
            client_id=client_id,
        )


class _RawOffsetFetchRequest(_RawResponseMixin, OffsetFetchRequest, init=False):  # type: ignore[misc,call-arg]
    pass


class _RawListOffsetsRequest(_RawResponseMixin, ListOffsetsRequest, init=False):  # type: ignore[misc,call-arg]
    """A ListOffsets request with encoded topics: 10,000 partition objects would cost more than the rest of the poll."""

    def encode(self, version: int | None = None, *, header: bool = True, framed: bool = True) -> bytes:  # noqa: ARG002
        """Encode as kafka-python does: in the negotiated version, with header and frame."""
        request: Any = self
        head: bytes = request.encode_header(flexible=True)
        body: bytes = struct.pack(">ib", request.replica_id, request.isolation_level) + request.topics
        if request.API_VERSION >= _LIST_OFFSETS_TIMEOUT:
            body += struct.pack(">i", request.timeout_ms)
        return struct.pack(">i", len(head) + len(body) + 1) + head + body + b"\0"


class _RawFetchRequest(_RawResponseMixin, FetchRequest, init=False):  # type: ignore[misc,call-arg]
    pass


class _RawDescribeLogDirsRequest(_RawResponseMixin, DescribeLogDirsRequest, init=False):  # type: ignore[misc,call-arg]
    pass


class _RawMetadataRequest(_RawResponseMixin, MetadataRequest, init=False):  # type: ignore[misc,call-arg]
    pass


# --- requests ---


def metadata_request(*, authorized_operations: bool = False) -> Any:
    """Brokers and all topics, raw; never creates a topic. With `authorized_operations` decoded, for `lagwatch check`."""
    kind = MetadataRequest if authorized_operations else _RawMetadataRequest
    return kind(
        topics=MetadataRequest.ALL_TOPICS,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=authorized_operations,
        max_version=12,  # 13 adds only an error for clients that know the cluster's id
    )


def named_topics_request(topics: Sequence[str]) -> Any:
    """These topics, decoded: unlike the list of all topics, the response has an error for those not authorized."""
    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[topic(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        max_version=12,
    )


def brokers_request() -> Any:
    """Brokers without any topics, decoded."""
    return named_topics_request(())


def describe_cluster_request() -> Any:
    """The controller, and the operations this user is authorized to do on the cluster."""
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


def list_groups_request() -> Any:
    """The groups this broker coordinates."""
    return ListGroupsRequest(states_filter=[], types_filter=[])


def offset_fetch_request(groups: Sequence[str]) -> Any:
    """All committed offsets of many groups, raw (Kafka 3.0 and later)."""
    wanted = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, member_id=None, member_epoch=-1, topics=None)
        for group in groups
    ]
    return _RawOffsetFetchRequest(
        groups=wanted, require_stable=False, min_version=OFFSET_FETCH_MANY_GROUPS, max_version=_OFFSET_FETCH_BY_NAME
    )


def offset_fetch_one_request(group: str) -> Any:
    """All committed offsets of one group, decoded, for brokers before Kafka 3.0."""
    return OffsetFetchRequest(group_id=group, topics=None, require_stable=False, max_version=7)


def describe_groups_request(groups: Sequence[str]) -> Any:
    """Members of classic groups."""
    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)


def consumer_group_describe_request(groups: Sequence[str]) -> Any:
    """Members of KIP-848 groups."""
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)


def list_offsets_request(
    partitions: Mapping[str, npt.ArrayLike],
    timestamp: int | npt.NDArray[np.int64],
    *,
    committed_only: bool = False,
    timeout_ms: int = 5000,
) -> Any:
    """EARLIEST or LATEST offset of many partitions led by one broker, raw; the last stable offset if `committed_only`.

    With timestamps instead, one for all partitions or one for each, the first record at or after it.
    """
    return _RawListOffsetsRequest(
        replica_id=_NO_REPLICA,
        isolation_level=int(committed_only),
        topics=encode_list_offsets_topics(partitions, timestamp),
        timeout_ms=timeout_ms,
        min_version=6,
        max_version=10,
    )


def fetch_request(topic: str, positions: Mapping[int, int], *, max_bytes: int, partition_bytes: int) -> Any:
    """Records of one topic from these offsets on, raw, without waiting; includes open transactions.

    The broker fills the response partition by partition in the given order. The first partition with records returns at
    least one whole batch, however large.
    """
    return fetch_topics_request({topic: positions}, max_bytes=max_bytes, partition_bytes=partition_bytes)


def fetch_topics_request(
    topics: Mapping[str, Mapping[int, int]], *, max_bytes: int, partition_bytes: int, committed_only: bool = False
) -> Any:
    """Like `fetch_request` for many topics; `committed_only` stops at open transactions and lists the aborted ones."""
    kind = FetchRequest.FetchTopic

    def fetch_partitions(positions: Mapping[int, int]) -> list[Any]:
        return [
            kind.FetchPartition(
                partition=number,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=partition_bytes,
            )
            for number, offset in positions.items()
        ]

    return _RawFetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=int(committed_only),
        session_id=0,
        session_epoch=-1,  # no fetch session
        topics=[kind(topic=topic, partitions=fetch_partitions(positions)) for topic, positions in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
        min_version=_FETCH_BY_NAME,
        max_version=_FETCH_BY_NAME,
    )


def describe_topic_configs_request(topics: Sequence[str], keys: Sequence[str]) -> Any:
    """Some configuration keys of many topics."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(keys))
            for topic in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def describe_log_dirs_request() -> Any:
    """All replicas on this broker with their sizes, raw."""
    return _RawDescribeLogDirsRequest(topics=None, min_version=3)


def describe_quorum_request() -> Any:
    """The state of the controllers' quorum."""
    topic = DescribeQuorumRequest.TopicData
    return DescribeQuorumRequest(
        topics=[topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])]
    )


def decode_assignment(data: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """A classic member's assignment as topics with partitions; empty if it is not of the consumer protocol.

    Versions 0 to 3 of ConsumerProtocolAssignment are alike: topics with partitions, then user data.
    """
    try:
        version, topics = struct.unpack_from(">hi", data)
        if version < 0:
            return []
        parts, at = [], 6
        for _ in range(topics):
            name, at = _read_sized(data, at, "h")
            (count,) = struct.unpack_from(">i", data, at)
            parts.append((name.decode(), struct.unpack_from(f">{count}i", data, at + 4)))
            at += 4 + 4 * count
        if struct.unpack_from(">i", data, at)[0] > 0:
            _read_sized(data, at, "i")
    except (struct.error, UnicodeDecodeError):  # Connect and others use a format of their own
        return []
    return parts


def _read_sized(data: bytes, at: int, size_format: str) -> tuple[bytes, int]:
    """Bytes with a length prefix, and the position after them."""
    (size,) = struct.unpack_from(f">{size_format}", data, at)
    start = at + struct.calcsize(size_format)
    return struct.unpack_from(f"{size}s", data, start)[0], start + size


# --- errors ---


def describe_error_code(code: int) -> str:
    """The name and description of an error code."""
    error = kafka.errors.for_code(code)
    return f"{error.__name__.removesuffix('Error')}: {getattr(error, 'description', '') or 'no description'}"


def list_names(names: Sequence[str], noun: str) -> str:
    """`3 partitions (a/0, a/1, b/4)`, truncated after a few names."""
    more = ", ..." if len(names) > _MAX_NAMES else ""
    return f"{len(names)} {noun}{'s' if len(names) > 1 else ''} ({', '.join(names[:_MAX_NAMES])}{more})"
