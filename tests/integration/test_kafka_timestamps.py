"""Timestamp queries against real brokers, and the time lags computed from the answers, for both kinds of timestamps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_timestamps import KafkaTimestamps
from lagwatch.batch import Texts
from lagwatch.broker_queries import TimestampQuery
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.ports import closed_port
from tests.harness.time_watch import Answered, TimeWatch
from tests.harness.timed_records import produce_at, times_of

DAY = 86_400_000
POLL_MS = 100


def questions(topic: str, *rows: tuple[int, int, int]) -> TimestampQuery:
    """Rows of partition, leader, time."""
    partition, leader, ask = np.array(rows, np.int64).T
    count = np.arange(len(rows), dtype=np.int64)
    places = (partition.astype(np.int32), leader.astype(np.int32))
    return TimestampQuery(Texts(np.zeros(len(rows), np.int32), [topic]), *places, count, ask, count)


@contextmanager
def times(bootstrap: str, wanted: TimestampQuery, deadline_seconds: float = 5.0) -> Iterator[KafkaTimestamps]:
    connection = KafkaConnection(ConnectionOptions(tuple(bootstrap.split(","))))
    try:
        yield KafkaTimestamps(connection, next_query=lambda: wanted, deadline_seconds=deadline_seconds)
    finally:
        connection.close()


def test_brokers_answer_with_the_first_record_in_offset_order_and_its_own_time(kafka: KafkaCluster) -> None:
    start = time.time_ns() // 1_000_000 - DAY
    kafka.create_topic("times.order", assignment={p: [p + 1] for p in range(3)}, config={"retention.ms": "-1"})
    for partition in (0, 1):
        produce_at(
            kafka.bootstrap, "times.order", partition, [start + s * 1000 for s in (0, 10, 20, 5, 30, 25, 60, 40)]
        )
    targets = [
        (0, 1, 0),
        (0, 1, start + 5000),
        (0, 1, start + 21_000),
        (0, 1, start + 61_000),
        (1, 2, start),
        (2, 3, 0),
    ]
    found = []
    for row in targets:
        with times(kafka.bootstrap, questions("times.order", row)) as collector:
            collected = collector.collect(0)
            assert not collected.failures
            assert collected.timestamp_answers is not None
            found.append((int(collected.timestamp_answers.offset[0]), int(collected.timestamp_answers.time_ms[0])))

    after = [(o, t if t < 0 else t - start) for o, t in found]
    assert after == [(0, 0), (1, 10_000), (4, 30_000), (-1, -1), (0, 0), (-1, -1)]


def test_a_paused_broker_affects_only_its_own_queries(kafka: KafkaCluster) -> None:
    kafka.create_topic("times.paused", assignment={p: [p + 1] for p in range(3)})
    wanted = questions("times.paused", (0, 1, 0), (1, 2, 0), (2, 3, 0))
    with times(kafka.bootstrap, wanted, deadline_seconds=3.0) as collector:
        assert not collector.collect(0).failures
        kafka.node(3).pause()
        began = time.monotonic()
        collected = collector.collect(0)
        took = time.monotonic() - began
    assert took < 3.0 + 2
    assert [failure.target for failure in collected.failures] == ["broker 3"]
    assert collected.timestamp_answers is not None
    assert sorted(collected.timestamp_answers.key.tolist()) == [0, 1]


def test_connection_refused_is_a_failure_and_not_an_exception() -> None:
    with times(f"127.0.0.1:{closed_port()}", questions("t", (0, 1, 0)), deadline_seconds=1.5) as collector:
        collected = collector.collect(0)
    [failure] = collected.failures
    assert failure.target == ""
    assert "connection refused" in failure.reason
    assert collected.timestamp_answers is None


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_group_in_the_middle_of_the_log_is_located_by_a_few_queries(kafka: KafkaCluster, kind: str) -> None:
    """The agent starts after all records are written, so only queries can date them."""
    topic = f"placed.{kind}"
    kafka.create_topic(topic, partitions=1, config={"retention.ms": "-1", "message.timestamp.type": kind})
    now = time.time_ns() // 1_000_000
    random = np.random.default_rng(3)
    busy = np.sort(random.integers(now - 7 * DAY, now - 2 * DAY, 1500))  # then two days of silence but for a few
    for part in np.split(np.concatenate((busy, np.sort(random.integers(now - DAY, now - 1000, 20)))), 8):
        produce_at(kafka.bootstrap, topic, 0, part)
    truth = times_of(kafka.bootstrap, topic)
    offsets = {f"placed.{kind}.{offset}": offset for offset in (0, 1, 700, 1499, 1500, 1519, 1520)}
    for group, offset in offsets.items():
        kafka.commit(group, {(topic, 0): offset})
    watch = TimeWatch(kafka.bootstrap, topic, POLL_MS)
    try:
        polls = [_poll_on_time(watch) for _ in range(45)]
        queries = watch.queries
    finally:
        watch.close()

    assert watch.failures == []
    for poll in polls:
        for row, offset in enumerate(poll.committed):
            age = (poll.now_ms - truth[offset]) / 1000 if offset < poll.end[row] else 0.0
            assert not poll.lag.low_known[row] or poll.lag.low[row] <= age
            assert not poll.lag.known[row] or age <= poll.lag.high[row]
    last = polls[-1].lag
    assert sorted(polls[-1].committed) == sorted(offsets.values())
    assert last.known.tolist() == [True] * len(offsets)
    assert (last.high - last.low <= np.maximum(2 * POLL_MS / 1000 + 2, 0.05 * last.seconds)).all()
    assert dict(zip(polls[-1].group, polls[-1].committed.tolist(), strict=True)) == offsets
    assert queries <= 45


def _poll_on_time(watch: TimeWatch) -> Answered:
    """Polls keep their interval; a faster poll would repeat a query before its answer arrives."""
    began = time.monotonic()
    found = watch.poll()
    time.sleep(max(0.0, POLL_MS / 1000 * 0.6 - (time.monotonic() - began)))
    return found
