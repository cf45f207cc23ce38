"""The unread-tail collector on real clusters: transactions, a real message, a missing ACL, a paused broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_unread import KafkaUnread
from lagwatch.assemble.cluster import assemble_cluster
from lagwatch.batch import Batch, Texts
from lagwatch.broker_queries import TailContent, TailQuery
from lagwatch.clock import Moment, SettableClock
from lagwatch.config import load_settings, parse_settings
from lagwatch.demo.kafka_access import AclBinding
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected
from lagwatch.verdict.status import VerdictRule
from tests.harness.committing import transactions
from tests.harness.polls import rows_of
from tests.harness.secured_kafka import PRINCIPAL

Configure = Callable[..., Path]
READ_ORDERS = ("READ", "TOPIC", "orders")


def tail_query(topic: str, *rows: tuple[int, int, int, int]) -> TailQuery:
    """Rows of partition, leader, offset and end; keys 0, 1, ..."""
    partition, leader, offset, end = np.array(rows, np.int64).T
    keys = np.arange(len(rows), dtype=np.int64)
    names = Texts(np.zeros(len(rows), np.int32), [topic])
    return TailQuery(names, partition.astype(np.int32), leader.astype(np.int32), keys, offset, end)


@contextmanager
def markers(bootstrap: str, wanted: TailQuery, deadline_seconds: float = 15.0) -> Iterator[KafkaUnread]:
    connection = KafkaConnection(ConnectionOptions(tuple(bootstrap.split(","))))
    try:
        yield KafkaUnread(connection, next_query=lambda: wanted, deadline_seconds=deadline_seconds)
    finally:
        connection.close()


def contents_of(collected: Collected) -> dict[int, int]:
    if collected.tail_answers is None:
        return {}
    return dict(zip(collected.tail_answers.key.tolist(), collected.tail_answers.content.tolist(), strict=True))


def transact(producer: Any, topic: str, partition: int, records: int, *, commit: bool = True) -> None:
    producer.begin_transaction()
    for _ in range(records):
        producer.send(topic, b"x", partition=partition)
    producer.flush()
    (producer.commit_transaction if commit else producer.abort_transaction)()


def end_of(kafka: KafkaCluster, topic: str, partition: int) -> int:
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap.split(","))
    try:
        place = TopicPartition(topic, partition)
        return int(consumer.end_offsets([place])[place])
    finally:
        consumer.close()


def read_and_commit(kafka: KafkaCluster, group: str, topic: str) -> int:
    """Read all there is and commit the offset after the last record, as many consumers do; returns it."""
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap.split(","),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        after, end = 0, consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            for record in consumer.poll(timeout_ms=500).get(place, []):
                after = record.offset + 1
        consumer.commit({place: OffsetAndMetadata(after, "", -1)})
        return after
    finally:
        consumer.close(autocommit=False)


def test_tails_of_real_transactions_are_distinguished_from_records(kafka: KafkaCluster) -> None:
    topic = "markers.kinds"
    kafka.create_topic(topic, assignment={p: [p % 3 + 1] for p in range(5)})
    with transactions(kafka, "markers-kinds") as producer:
        for _ in range(3):
            transact(producer, topic, 0, 2)  # 9 offsets, the last a marker
        for commit in (True, False):
            transact(producer, topic, 1, 2, commit=commit)  # two that count, a marker, two that do not, a marker
            transact(producer, topic, 2, 2, commit=not commit)
        producer.begin_transaction()
        producer.send(topic, b"open", partition=4)
        producer.flush()
        kafka.produce(topic, {3: 2})
        rows = [(0, 1, 8, 9), (1, 2, 2, 6), (2, 3, 3, 6), (3, 1, 1, 2), (4, 2, 0, 1)]
        assert [end_of(kafka, topic, p) for p in range(5)] == [end for *_, end in rows]
        with markers(kafka.bootstrap, tail_query(topic, *rows)) as collector:
            collected = collector.collect(0)
        producer.abort_transaction()

    assert list(collected.failures) == []
    assert contents_of(collected) == {
        0: TailContent.NOTHING,
        1: TailContent.NOTHING,
        2: TailContent.RECORDS,
        3: TailContent.RECORDS,
        4: TailContent.UNKNOWN,
    }


def test_the_agents_jobs_find_which_group_has_unread_messages(kafka: KafkaCluster) -> None:
    """Both were idle before the agent came; polls are a minute apart on its clock, so that any guess would be due."""
    for topic in ("markers.read", "markers.unread"):
        kafka.create_topic(topic, partitions=1)
    with transactions(kafka, "markers-agent") as producer:
        for records in (1, 5, 2):
            transact(producer, "markers.read", 0, records)
    assert read_and_commit(kafka, "markers-reader", "markers.read") == end_of(kafka, "markers.read", 0) - 1
    kafka.produce("markers.unread", {0: 5})
    kafka.commit("markers-behind", {("markers.unread", 0): 4})
    text = f"""
clusters:
  - name: east
    bootstrap: {kafka.bootstrap.split(",")}
    deadline: 9s
    topics: {{include: ['markers[.](un)?read']}}
    groups: {{include: ['markers-(reader|behind)']}}
"""
    [cluster] = parse_settings(text, "test").clusters
    cluster_jobs = assemble_cluster(cluster)
    pipeline, clock = Pipeline("east", cluster_jobs.evaluator), SettableClock()
    pipeline.unread_tails.queries = cluster_jobs.tail_queries
    jobs = {job.source: job.collector for job in cluster_jobs.jobs if job.source in ("kafka", "kafka_unread")}
    polls: list[list[Batch]] = []
    try:
        for _ in range(20):
            clock.advance(60)
            for source, collector in jobs.items():
                collected = collector.collect(clock.wall_ms())
                assert list(collected.failures) == []
                batches = pipeline.observe(source, collected, 0.1, Moment.now(clock))
                if source == "kafka":
                    polls.append(batches)
    finally:
        cluster_jobs.close()

    lag = {row["group"]: (row["lag"], row["rule"]) for row in rows_of(polls[-1], "consumer_lag")}
    assert lag == {"markers-reader": (1, VerdictRule.ONLY_MARKERS), "markers-behind": (1, VerdictRule.NEVER_MOVED)}
    said = {row["group"]: row["status_text"] for row in rows_of(polls[-1], "consumer_group")}
    assert said == {"markers-reader": "OK", "markers-behind": "WARN"}


def test_a_topic_without_the_read_acl_is_skipped_until_the_acl_exists(
    secured: KafkaCluster, configure: Configure
) -> None:
    """Partition 0 of `orders` has ten plain records; the query is for the offset of the last."""
    [cluster] = load_settings(configure(deadline="9s")).clusters
    cluster_jobs = assemble_cluster(cluster)
    [collector] = [job.collector for job in cluster_jobs.jobs if job.source == "kafka_unread"]

    def ask(at_ms: int) -> Collected:
        cluster_jobs.tail_queries.put(tail_query("orders", (0, 1, 9, 10)))
        return collector.collect(at_ms)

    try:
        refused = ask(0)
        secured.add_acl(AclBinding(PRINCIPAL, *READ_ORDERS))
        found = [ask(3_599_999), ask(3_600_000)]
    finally:
        secured.remove_acl(AclBinding(PRINCIPAL, *READ_ORDERS))
        cluster_jobs.close()
    assert (list(refused.failures), refused.complete, contents_of(refused)) == ([], True, {})
    assert list(refused.reached) == ["broker 1"]
    assert [contents_of(one) for one in found] == [{}, {0: TailContent.RECORDS}], "not queried again for an hour"


def test_a_paused_broker_affects_only_its_own_queries(kafka: KafkaCluster) -> None:
    topic = "markers.paused"
    kafka.create_topic(topic, assignment={p: [p + 1] for p in range(3)})
    kafka.produce(topic, {0: 1, 1: 1, 2: 1})
    wanted = tail_query(topic, (0, 1, 0, 1), (1, 2, 0, 1), (2, 3, 0, 1))
    with markers(kafka.bootstrap, wanted, deadline_seconds=4.0) as collector:
        collector.collect(0)  # the first one also connects, which a busy machine may not do in time
        kafka.node(3).pause()
        began = time.monotonic()
        collected = collector.collect(0)
        took = time.monotonic() - began
    assert took < 4.0 + 2
    assert [failure.target for failure in collected.failures] == ["broker 3"]
    assert contents_of(collected) == {0: TailContent.RECORDS, 1: TailContent.RECORDS}
