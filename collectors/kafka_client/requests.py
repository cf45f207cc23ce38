"""What is said to brokers: the one file that knows kafka-python's message classes and the codes of its errors.

Everything above speaks of brokers by number, asks with the request builders below, and gets answers or a SourceError.
kafka-python's own clients raise for the whole call when one group or partition carries an error, just when an operator
needs the rest; this works one level below them (`kafka.net`), where every answer comes with its own error.
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

from collectors.kafka_decode.offsets import encode_asked

# kafka-python logs each failed connection itself, and at DEBUG the bytes it sends, passwords included.
# Failures are rows of `source` here, told once: its own lines stay off at every log level.
logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)

T = TypeVar("T")

EARLIEST, LATEST = -2, -1
_TOPIC_RESOURCE = 2
_NO_REPLICA = -1
_NAMES_TOLD = 5
# Above this an answer names topics by id only; a deleted topic's name could then not be told.
_OFFSET_FETCH_BY_NAME = 9
_LIST_OFFSETS_TIMEOUT = 10  # from this version the request says how long the broker may take
_FETCH_BY_NAME = 12  # Kafka 2.7; above it topics are asked for by id only
OFFSET_FETCH_MANY_GROUPS = 8  # from this version (Kafka 3.0) one request carries many groups


class ConsumerGroupDescribeRequest(ApiMessage, load_json="collectors.kafka_client.schemas"):  # type: ignore[misc,call-arg]
    """Members of KIP-848 groups; DescribeGroups calls such groups Dead."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json="collectors.kafka_client.schemas"):  # type: ignore[misc,call-arg]
    """The answer."""


class RawAnswer:
    """The undecoded body of an answer, for the columnar decoders, with the throttle time the connection looks at."""

    __slots__ = ("body", "throttle_time_ms", "version")

    def __init__(self, body: bytes, version: int) -> None:
        self.body = body
        self.version = version
        self.throttle_time_ms = int.from_bytes(body[:4], "big")  # the first field of every answer asked for raw


class _RawClass:
    """Stands where kafka-python expects a response class: reads the header as that class does, leaves the body alone."""

    def __init__(self, response_class: Any, version: int) -> None:
        self._response_class = response_class
        self._version = version

    def parse_header(self, data: Any) -> Any:
        return self._response_class.parse_header(data)

    def decode(self, data: Any) -> RawAnswer:
        return RawAnswer(data.read(), self._version)


class _RawHeader(RequestHeader, init=False):  # type: ignore[misc,call-arg]
    """A request header whose answer is not decoded."""

    def get_response_class(self) -> Any:
        return _RawClass(super().get_response_class(), self.request_api_version)


class _AnsweredRaw:
    """Mixed into a request class: its answer comes as bytes, which decode to columns and not to 87,000 objects."""

    __slots__ = ()

    def with_header(self, correlation_id: int = 0, client_id: str = "lagwatch") -> None:
        request: Any = self
        request._header = _RawHeader(  # noqa: SLF001  # the slot kafka-python's own method fills
            request_api_key=request.API_KEY,
            request_api_version=request.API_VERSION,
            correlation_id=correlation_id,
            client_id=client_id,
        )


class _RawOffsetFetchRequest(_AnsweredRaw, OffsetFetchRequest, init=False):  # type: ignore[misc,call-arg]
    pass


class _RawListOffsetsRequest(_AnsweredRaw, ListOffsetsRequest, init=False):  # type: ignore[misc,call-arg]
    """Its topics are bytes already: 10,000 partitions as objects would cost more than all the rest of a poll."""

    def encode(self, version: int | None = None, *, header: bool = True, framed: bool = True) -> bytes:  # noqa: ARG002
        """As kafka-python sends it: always in the version it has chosen, with header and frame."""
        request: Any = self
        head: bytes = request.encode_header(flexible=True)
        body: bytes = struct.pack(">ib", request.replica_id, request.isolation_level) + request.topics
        if request.API_VERSION >= _LIST_OFFSETS_TIMEOUT:
            body += struct.pack(">i", request.timeout_ms)
        return struct.pack(">i", len(head) + len(body) + 1) + head + body + b"\0"


class _RawFetchRequest(_AnsweredRaw, FetchRequest, init=False):  # type: ignore[misc,call-arg]
    pass


class _RawDescribeLogDirsRequest(_AnsweredRaw, DescribeLogDirsRequest, init=False):  # type: ignore[misc,call-arg]
    pass


class _RawMetadataRequest(_AnsweredRaw, MetadataRequest, init=False):  # type: ignore[misc,call-arg]
    pass


# --- requests ---


def metadata_request(*, authorized_operations: bool = False) -> Any:
    """Brokers and all topics, raw; never creates a topic. With operations it is decoded, for `check`."""
    kind = MetadataRequest if authorized_operations else _RawMetadataRequest
    return kind(
        topics=MetadataRequest.ALL_TOPICS,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=authorized_operations,
        max_version=12,  # 13 adds only an error for clients that know the cluster's id
    )


def named_topics_request(topics: Sequence[str]) -> Any:
    """These topics by name, decoded: unlike the list of all, the answer tells which of them this user may not see."""
    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[topic(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        max_version=12,
    )


def brokers_request() -> Any:
    """Which brokers there are, decoded, and of no topic anything."""
    return named_topics_request(())


def describe_cluster_request() -> Any:
    """What this user may do with the cluster."""
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
    """EARLIEST or LATEST offset of many partitions led by one broker, raw; `committed_only` asks the last stable one.

    Or, for times, the first record at or after each: one time for each partition in turn.
    """
    return _RawListOffsetsRequest(
        replica_id=_NO_REPLICA,
        isolation_level=int(committed_only),
        topics=encode_asked(partitions, timestamp),
        timeout_ms=timeout_ms,
        min_version=6,
        max_version=10,
    )


def fetch_request(topic: str, positions: Mapping[int, int], *, most_bytes: int, partition_bytes: int) -> Any:
    """Records of one topic from these offsets on, raw: what there is now, open transactions included.

    The broker fills the answer partition by partition in the order given. The first one that has records comes with a
    whole batch at least, however large that is.
    """
    return fetch_topics_request({topic: positions}, most_bytes=most_bytes, partition_bytes=partition_bytes)


def fetch_topics_request(
    topics: Mapping[str, Mapping[int, int]], *, most_bytes: int, partition_bytes: int, committed_only: bool = False
) -> Any:
    """As `fetch_request`, of many topics; `committed_only` stops at open transactions and names the aborted ones."""
    kind = FetchRequest.FetchTopic

    def asked(positions: Mapping[int, int]) -> list[Any]:
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
        max_bytes=most_bytes,
        isolation_level=int(committed_only),
        session_id=0,
        session_epoch=-1,  # no session: each request stands alone
        topics=[kind(topic=topic, partitions=asked(positions)) for topic, positions in topics.items()],
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
    """A classic member's assignment as topics with partitions; empty when it is not the consumer protocol's.

    Versions 0 to 3 of ConsumerProtocolAssignment are alike: topics with partitions, then bytes for the members' own use.
    """
    try:
        version, topics = struct.unpack_from(">hi", data)
        if version < 0:
            return []
        parts, at = [], 6
        for _ in range(topics):
            name, at = _counted(data, at, "h")
            (count,) = struct.unpack_from(">i", data, at)
            parts.append((name.decode(), struct.unpack_from(f">{count}i", data, at + 4)))
            at += 4 + 4 * count
        if struct.unpack_from(">i", data, at)[0] > 0:
            _counted(data, at, "i")
    except (struct.error, UnicodeDecodeError):  # Connect and others put their own bytes there
        return []
    return parts


def _counted(data: bytes, at: int, size_format: str) -> tuple[bytes, int]:
    """Bytes after their number, and where they end."""
    (size,) = struct.unpack_from(f">{size_format}", data, at)
    start = at + struct.calcsize(size_format)
    return struct.unpack_from(f"{size}s", data, start)[0], start + size


# --- errors ---


def error_words(code: int) -> str:
    """An error code of an answer in words."""
    error = kafka.errors.for_code(code)
    return f"{error.__name__.removesuffix('Error')}: {getattr(error, 'description', '') or 'no description'}"


def some(names: Sequence[str], noun: str) -> str:
    """`3 partitions (a/0, a/1, b/4)`, cut after a few names."""
    more = ", ..." if len(names) > _NAMES_TOLD else ""
    return f"{len(names)} {noun}{'s' if len(names) > 1 else ''} ({', '.join(names[:_NAMES_TOLD])}{more})"
