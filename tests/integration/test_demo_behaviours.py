"""Behaviours of the demo one by one, with short times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaConsumer, TopicPartition

from lagwatch.demo.behaviours import CommittingWithoutMembers, Stalling
from lagwatch.demo.client_thread import running
from lagwatch.demo.clients import DemoConsumer
from lagwatch.demo.exactly_once import Transforming
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.producers import Producing
from tests.harness.waiting import wait_until


def committed(kafka: KafkaCluster, group: str) -> int:
    return sum(kafka.committed(group).values())


@contextmanager
def reading(kafka: KafkaCluster, topic: str, **options: object) -> Iterator[KafkaConsumer]:
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap.split(","), exclude_internal_topics=False, **options)
    try:
        consumer.assign([TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))])
        yield consumer
    finally:
        consumer.close()


def test_a_stalled_member_commits_the_same_offset_again_and_again(kafka: KafkaCluster) -> None:
    kafka.create_topic("demo-stalled", partitions=2)
    stalling = Stalling("demo-stalled", "demo-stalled", works_for_seconds=12, commit_every_seconds=0.5)
    with running([Producing("demo-stalled", 40, (3, 1)), stalling], kafka) as [_, member]:
        wait_until(lambda: committed(kafka, "demo-stalled") > 0, 60, "it never committed")
        with reading(kafka, "__consumer_offsets", auto_offset_reset="latest") as offsets:
            found: list[int] = []
            key = b"demo-stalled\x00\x0cdemo-stalled\x00\x00\x00\x00"  # group, topic, partition

            def commits_on_partition_0() -> list[int]:
                records = [record for part in offsets.poll(timeout_ms=200).values() for record in part]
                ours = [record.value for record in records if key in record.key and record.value]
                found.extend(int.from_bytes(value[2:10], "big") for value in ours)  # after its version
                return found

            wait_until(lambda: len(set(commits_on_partition_0()[-6:])) == 1 and len(found) > 6, 60, lambda: str(found))
        assert member.alive
        assert kafka.committed("demo-stalled")["demo-stalled", 0] == found[-1]
        with kafka.admin() as admin:
            assert admin.describe_groups(["demo-stalled"])["demo-stalled"]["group_state"] == "Stable"
    assert not member.alive


def test_commits_without_members_move_and_their_group_stays_empty(kafka: KafkaCluster) -> None:
    kafka.create_topic("demo-assigned", partitions=2)
    committing = CommittingWithoutMembers("demo-assigned", "demo-assigned", commit_every_seconds=1)
    with running([Producing("demo-assigned", 40, (1, 1)), committing], kafka):
        wait_until(lambda: committed(kafka, "demo-assigned") > 0, 30, "it never committed")
        before = committed(kafka, "demo-assigned")
        wait_until(lambda: committed(kafka, "demo-assigned") > before, 30, "it never committed again")
        with kafka.admin() as admin:
            [group] = [group for group in admin.list_groups() if group["group_id"] == "demo-assigned"]
        assert (group["group_state"], group["protocol_type"]) == ("Empty", "")


def test_what_is_transformed_is_written_exactly_once(kafka: KafkaCluster) -> None:
    kafka.create_topic("demo-in", partitions=3)
    kafka.create_topic("demo-out", partitions=2)
    kafka.produce("demo-in", {0: 50, 1: 30, 2: 20})
    with running(Transforming("demo-txn", "demo-in", "demo-out", transaction_every_seconds=0.5), kafka):
        wait_until(lambda: committed(kafka, "demo-txn") == 100, 60, "it did not read everything")
    values: list[bytes] = []
    with reading(kafka, "demo-out", auto_offset_reset="earliest", isolation_level="read_committed") as results:

        def all_there() -> bool:
            for records in results.poll(timeout_ms=200).values():
                values.extend(record.value for record in records)
            return len(values) >= 100

        wait_until(all_there, 30, lambda: f"only {len(values)} records")
    assert values == [b"X" * 100] * 100


def test_a_member_whose_assignment_came_between_two_polls_joins_again(kafka: KafkaCluster) -> None:
    """kafka-python applies an assignment only in the poll that waits for it: without mending it would never read."""
    with DemoConsumer(kafka.bootstrap, "demo-joining", "demo-joining") as member:
        member._consumer.poll(timeout_ms=5000)  # it joins: there is nothing to assign yet
        kafka.create_topic("demo-joining")
        kafka.produce("demo-joining", {0: 5})
        for _ in range(30):  # until its metadata is refreshed and the new assignment has come
            member.idle()
            time.sleep(0.5)

        wait_until(lambda: bool(member.read()), 60, "it never read")
