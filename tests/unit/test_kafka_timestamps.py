"""Timestamp queries: a time per partition, one request per broker; a failing broker affects only its own partitions."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from collectors.kafka_client.requests import RawResponse
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_timestamps import KafkaTimestamps
from lagwatch.batch import Texts
from lagwatch.broker_queries import TimestampQuery
from lagwatch.errors import SourceError
from tests.harness.fake_connection import FakeConnection
from tests.harness.synthetic_kafka import BROKERS, SyntheticCluster, synthetic_connection

NOT_LEADER = 6
VERSION = 7


class TimestampBrokers:
    """Answers each question with an offset and a time made from it, topics in reverse; some brokers are down."""

    def __init__(self, down: Sequence[int] = (), errors: Mapping[tuple[str, int], int] | None = None) -> None:
        self.requested: dict[int, list[tuple[str, int, int]]] = {}
        self._down, self._errors = down, errors or {}

    def respond(self, node: int, request: Any) -> RawResponse:
        if node in self._down:
            raise SourceError("connection refused")
        topics = _decoded(request)
        assert node not in self.requested, "one request a broker"
        self.requested[node] = [(t, p, at) for t, partitions in topics.items() for p, at in partitions.items()]
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        answer = ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                kind(
                    name=topic,
                    partitions=[
                        kind.ListOffsetsPartitionResponse(
                            partition_index=p,
                            error_code=self._errors.get((topic, p), 0),
                            timestamp=at + 7,
                            offset=100 + p,
                            leader_epoch=1,
                        )
                        for p, at in reversed(partitions.items())
                    ],
                )
                for topic, partitions in reversed(topics.items())
            ],
        )
        return RawResponse(bytes(answer.encode(version=VERSION)), VERSION)


def _decoded(request: Any) -> dict[str, dict[int, int]]:
    request.API_VERSION = VERSION
    request.with_header(correlation_id=1, client_id="lagwatch")
    data = bytes(request.encode())
    head = 4 + len(request.encode_header(flexible=True))
    assert struct.unpack(">i", data[:4]) == (len(data) - 4,)
    theirs = ListOffsetsRequest.decode(data[head:], version=VERSION)
    return {topic.name: {p.partition_index: p.timestamp for p in topic.partitions} for topic in theirs.topics}


def questions(*rows: tuple[str, int, int, int]) -> TimestampQuery:
    """Rows of topic, partition, leader, time; keys 0, 1, ..., ends 1000, 1001, ..."""
    names = sorted({topic for topic, *_ in rows})
    topic, partition, leader, ask = zip(*rows, strict=True)
    count = np.arange(len(rows), dtype=np.int64)
    return TimestampQuery(
        Texts(np.array([names.index(name) for name in topic], np.int32), names),
        np.array(partition, np.int32),
        np.array(leader, np.int32),
        count,
        np.array(ask, np.int64),
        1000 + count,
    )


_NO_INT32, _NO_INT64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
NOTHING = TimestampQuery(Texts(_NO_INT32, []), _NO_INT32, _NO_INT32, _NO_INT64, _NO_INT64, _NO_INT64)
MANY = questions(("b", 3, 1, 500), ("a", 0, 2, 0), ("a", 9, 1, 700), ("b", 1, 1, 600), ("c", 5, 3, 800))


def test_each_broker_is_queried_once_for_what_it_leads() -> None:
    brokers = TimestampBrokers()
    collected = KafkaTimestamps(FakeConnection(brokers.respond), next_query=lambda: MANY).collect(0)

    assert brokers.requested == {1: [("a", 9, 700), ("b", 1, 600), ("b", 3, 500)], 2: [("a", 0, 0)], 3: [("c", 5, 800)]}
    assert not collected.failures
    assert list(collected.reached) == ["broker 1", "broker 2", "broker 3"]
    assert collected.timestamp_answers is not None
    answers = collected.timestamp_answers
    rows = zip(answers.key, answers.target_ms, answers.end, answers.offset, answers.time_ms, strict=True)
    assert sorted(rows) == [
        (0, 500, 1000, 103, 507), (1, 0, 1001, 100, 7), (2, 700, 1002, 109, 707),
        (3, 600, 1003, 101, 607), (4, 800, 1004, 105, 807),
    ]  # fmt: skip


def test_a_broker_that_is_down_affects_only_its_own_partitions() -> None:
    collected = KafkaTimestamps(FakeConnection(TimestampBrokers(down=[1]).respond), next_query=lambda: MANY).collect(0)
    assert [(failure.target, failure.reason) for failure in collected.failures] == [("broker 1", "connection refused")]
    assert collected.timestamp_answers is not None
    assert sorted(collected.timestamp_answers.key) == [1, 4]


def test_a_refused_partition_affects_only_itself() -> None:
    collected = KafkaTimestamps(
        FakeConnection(TimestampBrokers(errors={("b", 1): NOT_LEADER}).respond), next_query=lambda: MANY
    ).collect(0)
    [failure] = collected.failures
    assert failure.target == "partitions"
    assert "timestamps of 1 partition (b/1)" in failure.reason
    assert collected.timestamp_answers is not None
    assert sorted(collected.timestamp_answers.key) == [0, 1, 2, 4]


def test_queries_stay_within_the_limit_and_skip_partitions_without_a_leader() -> None:
    brokers = TimestampBrokers()
    wanted = questions(("a", 0, -1, 100), ("a", 1, 2, 100), ("a", 2, 2, 100), ("a", 3, 2, 100))
    collected = KafkaTimestamps(FakeConnection(brokers.respond), next_query=lambda: wanted, max_partitions=2).collect(0)
    assert brokers.requested == {2: [("a", 1, 100), ("a", 2, 100)]}
    assert collected.timestamp_answers is not None
    assert sorted(collected.timestamp_answers.key) == [1, 2]


@pytest.mark.parametrize("wanted", [None, NOTHING])
def test_without_a_query_no_request_is_sent(wanted: TimestampQuery | None) -> None:
    brokers = TimestampBrokers()
    collected = KafkaTimestamps(FakeConnection(brokers.respond), next_query=lambda: wanted).collect(0)
    assert (list(collected.batches), list(collected.failures), collected.timestamp_answers) == ([], [], None)
    assert brokers.requested == {}


def test_a_poll_records_when_each_broker_read_its_ends() -> None:
    poll = KafkaPoll("large", synthetic_connection(SyntheticCluster(4, 10)))
    collected = poll.collect(0)
    assert set(collected.ends_read) == set(BROKERS)
    assert all(0 <= earliest <= latest < 60_000 for earliest, latest in collected.ends_read.values())
