"""The unread-tail collector: every kind of batch, one request per broker, and topics without the Read ACL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from kafka.protocol.consumer import FetchResponse

from collectors.kafka_client.requests import RawResponse
from collectors.kafka_decode.fetch import FetchedPartition
from collectors.kafka_decode.unread import tail_content
from collectors.kafka_unread import KafkaUnread
from lagwatch.batch import Texts
from lagwatch.broker_queries import TailContent, TailQuery
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected
from tests.harness.fake_connection import FakeConnection
from tests.harness.offsets_records import TRANSACTIONAL, batch, marker

NOT_LEADER, REFUSED, OUT_OF_RANGE = 6, 29, 1
HOUR_MS = 3_600_000
DATA = [(b"k", b"v")]


def left(data: bytes, end: int, aborted: Sequence[tuple[int, int]] = ()) -> TailContent:
    return tail_content(data, FetchedPartition(0, 0, end, 0, len(data), "t", list(aborted)), end)


def in_transaction(offset: int, producer: int, records: int = 1) -> bytes:
    return batch(offset, DATA * records, producer=producer, attributes=TRANSACTIONAL)


COMMITTED, ABORTED = marker(8, 1, commit=True), marker(8, 1, commit=False)


@pytest.mark.parametrize(
    ("data", "end", "aborted", "expected"),
    [
        pytest.param(COMMITTED, 9, [], TailContent.NOTHING, id="the marker of a commit"),
        pytest.param(ABORTED, 9, [], TailContent.NOTHING, id="the marker of an abort"),
        pytest.param(COMMITTED + marker(9, 2, commit=False), 10, [], TailContent.NOTHING, id="two markers"),
        pytest.param(batch(8, DATA), 9, [], TailContent.RECORDS, id="a record"),
        pytest.param(batch(7, DATA * 2), 9, [], TailContent.RECORDS, id="the rest of a batch"),
        pytest.param(COMMITTED + batch(9, DATA), 10, [], TailContent.RECORDS, id="a marker and a record"),
        pytest.param(COMMITTED + batch(9, DATA), 9, [], TailContent.NOTHING, id="a record that was written after the query"),
        pytest.param(in_transaction(8, 1) + marker(9, 1, commit=True), 10, [], TailContent.RECORDS, id="a transaction"),
        pytest.param(in_transaction(8, 1) + marker(9, 1, commit=False), 10, [(1, 8)], TailContent.NOTHING, id="aborted"),
        pytest.param(in_transaction(8, 1) + marker(9, 1, commit=False), 10, [(1, 2)], TailContent.NOTHING, id="its end"),
        pytest.param(
            in_transaction(8, 1) + in_transaction(9, 2) + marker(10, 1, commit=False) + marker(11, 2, commit=True),
            12, [(1, 8)], TailContent.RECORDS, id="aborted beside one that was not",
        ),
        pytest.param(
            marker(8, 1, commit=False) + in_transaction(9, 1) + marker(10, 1, commit=True),
            11, [(1, 2)], TailContent.RECORDS, id="aborted before one that was not",
        ),
        pytest.param(
            in_transaction(8, 1) + marker(9, 1, commit=True) + in_transaction(10, 1) + marker(11, 1, commit=False),
            12, [(1, 10)], TailContent.RECORDS, id="aborted after one that was not",
        ),
        pytest.param(batch(8, []), 9, [], TailContent.NOTHING, id="all its records were compacted away"),
        pytest.param(marker(9, 1, commit=True), 10, [], TailContent.NOTHING, id="a hole left by compaction"),
        pytest.param(COMMITTED, 10, [], TailContent.UNKNOWN, id="an open transaction behind"),
        pytest.param(b"", 9, [], TailContent.UNKNOWN, id="nothing came"),
        pytest.param(COMMITTED[:40], 9, [], TailContent.UNKNOWN, id="cut off"),
    ],
)  # fmt: skip
def test_the_content_of_a_tail_follows_from_batch_headers(
    data: bytes, end: int, aborted: list[tuple[int, int]], expected: TailContent
) -> None:
    assert left(data, end, aborted) == expected


class TailBrokers:
    """Brokers whose partitions all end with the same bytes; some are down, some partitions are refused."""

    def __init__(
        self, data: bytes, down: Sequence[int] = (), errors: Mapping[tuple[str, int], int] | None = None
    ) -> None:
        self.requested: list[tuple[int, dict[str, dict[int, int]]]] = []
        self._data, self._down, self._errors = data, down, errors or {}

    def respond(self, node: int, request: Any) -> RawResponse:
        if node in self._down:
            raise SourceError("connection refused")
        assert request.isolation_level == 1
        topics = {topic.topic: {p.partition: p.fetch_offset for p in topic.partitions} for topic in request.topics}
        self.requested.append((node, topics))
        kind = FetchResponse.FetchableTopicResponse
        answer = FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            session_id=0,
            responses=[
                kind(topic=topic, partitions=[self._part(topic, p) for p in reversed(partitions)])
                for topic, partitions in reversed(topics.items())
            ],
        )
        return RawResponse(bytes(answer.encode(version=12)), 12)

    def _part(self, topic: str, partition: int) -> Any:
        error = self._errors.get((topic, partition), 0)
        return FetchResponse.FetchableTopicResponse.PartitionData(
            partition_index=partition,
            error_code=error,
            high_watermark=9,
            last_stable_offset=9,
            log_start_offset=0,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=None if error else self._data,
        )


def tail_query(*rows: tuple[str, int, int]) -> TailQuery:
    """Rows of topic, partition, leader; all at offset 8 of 9, keys 0, 1, ..."""
    names = sorted({topic for topic, *_ in rows})
    topic, partition, leader = zip(*rows, strict=True)
    count = len(rows)
    return TailQuery(
        Texts(np.array([names.index(name) for name in topic], np.int32), names),
        np.array(partition, np.int32),
        np.array(leader, np.int32),
        np.arange(count, dtype=np.int64),
        np.full(count, 8, np.int64),
        np.full(count, 9, np.int64),
    )


MANY = tail_query(("b", 3, 1), ("a", 0, 2), ("a", 9, 1), ("b", 1, 1), ("c", 5, 3), ("c", 6, -1))


def contents_of(collected: Collected) -> dict[int, int]:
    if collected.tail_answers is None:
        return {}
    return dict(zip(collected.tail_answers.key.tolist(), collected.tail_answers.content.tolist(), strict=True))


def test_each_broker_is_queried_once_for_what_it_leads() -> None:
    brokers = TailBrokers(COMMITTED)
    collected = KafkaUnread(FakeConnection(brokers.respond), next_query=lambda: MANY).collect(0)
    assert brokers.requested == [(1, {"b": {3: 8, 1: 8}, "a": {9: 8}}), (2, {"a": {0: 8}}), (3, {"c": {5: 8}})]
    assert (list(collected.failures), list(collected.reached)) == ([], ["broker 1", "broker 2", "broker 3"])
    assert contents_of(collected) == dict.fromkeys(range(5), TailContent.NOTHING)
    assert collected.tail_answers is not None
    assert (set(collected.tail_answers.offset.tolist()), set(collected.tail_answers.end.tolist())) == ({8}, {9})


def test_a_broker_that_is_down_affects_only_its_own_partitions() -> None:
    collected = KafkaUnread(
        FakeConnection(TailBrokers(batch(8, DATA), down=[1]).respond), next_query=lambda: MANY
    ).collect(0)
    assert [(failure.target, failure.reason) for failure in collected.failures] == [("broker 1", "connection refused")]
    assert contents_of(collected) == {1: TailContent.RECORDS, 4: TailContent.RECORDS}


def test_a_moved_partition_is_reported_and_a_truncated_one_is_not() -> None:
    errors = {("b", 1): NOT_LEADER, ("a", 0): OUT_OF_RANGE}
    collected = KafkaUnread(
        FakeConnection(TailBrokers(COMMITTED, errors=errors).respond), next_query=lambda: MANY
    ).collect(0)
    [failure] = collected.failures
    assert failure.target == "partitions"
    assert "unread tail of 1 partition (b/1)" in failure.reason
    assert contents_of(collected) == {
        0: TailContent.NOTHING,
        1: TailContent.UNKNOWN,
        2: TailContent.NOTHING,
        4: TailContent.NOTHING,
    }


def test_a_topic_without_the_read_acl_is_no_failure_and_is_skipped_for_an_hour() -> None:
    brokers = TailBrokers(COMMITTED, errors={("c", 5): REFUSED, ("b", 3): REFUSED, ("b", 1): REFUSED})
    markers = KafkaUnread(FakeConnection(brokers.respond), next_query=lambda: MANY)
    for at_ms in (HOUR_MS, HOUR_MS + 10_000, 2 * HOUR_MS - 1):
        collected = markers.collect(at_ms)
        assert (list(collected.failures), collected.complete) == ([], True)
        assert contents_of(collected) == {1: TailContent.NOTHING, 2: TailContent.NOTHING}
    assert [len(topics) for _, topics in brokers.requested] == [2, 1, 1, 1, 1, 1, 1]
    markers.collect(2 * HOUR_MS)
    assert brokers.requested[-1] == (3, {"c": {5: 8}})


def test_without_readable_topics_or_a_query_no_request_is_sent() -> None:
    brokers = TailBrokers(COMMITTED, errors={("a", 0): REFUSED})
    markers = KafkaUnread(FakeConnection(brokers.respond), next_query=lambda: tail_query(("a", 0, 1)))
    assert [contents_of(markers.collect(at_ms)) for at_ms in (0, 1000)] == [{}, {}]
    assert len(brokers.requested) == 1
    assert KafkaUnread(FakeConnection(brokers.respond)).collect(0) == Collected([], [])
    assert len(brokers.requested) == 1
