"""The commits job against real brokers: every commit once, in order, with its time, through broker failures."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from collectors.kafka_client.offsets_fetch import FetchLimits
from collectors.kafka_commits import KafkaCommits
from lagwatch.demo.client_thread import running
from lagwatch.demo.exactly_once import Transforming
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.name_filter import NameFilter
from tests.harness.committing import (
    OFFSETS_TOPIC,
    Commit,
    assert_as_made,
    commits_of,
    committing,
    more_came,
    now_ms,
    offsets_partition,
    read_plainly,
    tailing,
    transactions,
)
from tests.harness.kafka import running_kafka
from tests.harness.waiting import wait_until

TOPIC = "commits.read"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def read_topic(kafka: KafkaCluster) -> str:
    kafka.create_topic(TOPIC, partitions=3, replication=1)
    return TOPIC


def new_group(partition: int | None = None) -> str:
    """An unused name of a group in that partition of the offsets topic."""
    while True:
        group = f"commits-{next(_numbers)}-{time.monotonic_ns()}"
        if partition in (None, offsets_partition(group)):
            return group


def collect_rows(commits: KafkaCommits, count: int) -> list[Commit]:
    """Collect until there are this many rows: on a busy machine a record is replicated after its request returned."""
    found: list[Commit] = []

    def has_enough() -> bool:
        found.extend(commits_of(commits.collect(now_ms())))
        return len(found) >= count

    wait_until(has_enough, 30, lambda: f"only {found}")
    return found


def leaders(kafka: KafkaCluster) -> dict[int, int]:
    """The leader of each partition of the offsets topic."""
    with kafka.admin() as admin:
        [topic] = admin.describe_topics([OFFSETS_TOPIC])
    return {part["partition_index"]: part["leader_id"] for part in topic["partitions"]}


def test_every_commit_of_a_consumer_comes_once_in_order_with_its_time(kafka: KafkaCluster, read_topic: str) -> None:
    group = new_group()
    with tailing(kafka, groups=group.__eq__) as commits, committing(kafka, group, read_topic) as consumer:
        commits.collect(now_ms())
        for step in range(5):
            consumer.commit({0: step, 2: 100 - step}, note="n" * 100 * step)
        first = commits.collect(now_ms())
        consumer.commit({1: 7})
        second = commits.collect(now_ms())

        assert not [*first.failures, *second.failures]
        assert (first.fallback, second.fallback) == (None, None)
        assert_as_made(commits_of(first) + commits_of(second), consumer.made)
        assert len(commits_of(second)) == 1
        assert commits_of(commits.collect(now_ms())) == []


@pytest.mark.parametrize("group", ["naïve ☃\n,=\"' 🦆", "x" * 300])
def test_hostile_names_come_through(single: KafkaCluster, group: str) -> None:
    with tailing(single) as commits, committing(single, group, TOPIC) as consumer:
        consumer.commit({0: 2**60})
        assert_as_made(commits_of(commits.collect(now_ms()), group), consumer.made)


def test_groups_and_topics_that_are_not_watched_are_left_out(kafka: KafkaCluster, read_topic: str) -> None:
    group, other = new_group(), new_group()
    kafka.create_topic("commits.unwatched")
    for name in (group, other):
        kafka.commit(name, {(read_topic, 0): 1, ("commits.unwatched", 0): 2})
    with tailing(kafka, groups=NameFilter([group]), topics=NameFilter([read_topic])) as commits:
        assert [row[:4] for row in commits_of(commits.collect(now_ms()))] == [(group, read_topic, 0, 1)]


def test_it_reads_what_a_plain_consumer_reads(kafka: KafkaCluster, read_topic: str) -> None:
    with committing(kafka, new_group(), read_topic) as consumer:
        consumer.commit({0: 1, 1: 2, 2: 3})
    with tailing(kafka, limits=FetchLimits(look_back_seconds=86_400, look_back_records=10**9)) as commits:
        found = [row for row in commits_of(commits.collect(now_ms())) if row.partition >= 0]
    expected, _ = read_plainly(kafka)
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_what_is_deleted_is_a_row_without_offset(kafka: KafkaCluster, read_topic: str) -> None:
    group = new_group()
    with tailing(kafka, groups=group.__eq__) as commits, committing(kafka, group, read_topic) as consumer:
        consumer.commit({0: 1, 1: 2})
        commits.collect(now_ms())
        before = now_ms()
        with kafka.admin() as admin:
            admin.delete_group_offsets(group, [TopicPartition(read_topic, 0)])
            [one] = collect_rows(commits, 1)
            admin.delete_groups([group])
            rest = collect_rows(commits, 2)

    assert one[:4] == (group, read_topic, 0, None)
    assert [row[:4] for row in rest] == [(group, read_topic, 1, None), (group, "", -1, None)]
    assert one.order < rest[0].order < rest[1].order
    assert all(before <= row.time_ms <= now_ms() for row in [one, *rest])


def test_only_committed_transactions_count(kafka: KafkaCluster, read_topic: str) -> None:
    group = new_group()
    with tailing(kafka, groups=group.__eq__) as commits, transactions(kafka, group) as producer:
        commits.collect(now_ms())
        for offset, ends_well in ((5, True), (6, False), (7, True), (8, False)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                {TopicPartition(read_topic, 0): OffsetAndMetadata(offset, "", -1)}, group
            )
            (producer.commit_transaction if ends_well else producer.abort_transaction)()
        found: list[Commit] = []

        def both_came() -> bool:  # markers are written after the end of a transaction is acknowledged
            found.extend(commits_of(commits.collect(now_ms())))
            return [row.offset for row in found] == [5, 7] and not len(commits._transactions)

        wait_until(both_came, 30, lambda: str(found))
        assert found[0].order < found[1].order


def test_the_commits_of_the_demos_transactional_group_are_those_kafka_keeps(single: KafkaCluster) -> None:
    for topic in ("commits.in", "commits.out"):
        single.create_topic(topic, partitions=2)
    single.produce("commits.in", {0: 30, 1: 20})
    group = new_group()
    with tailing(single, groups=group.__eq__) as commits:
        found: list[Commit] = []
        with running(Transforming(group, "commits.in", "commits.out", transaction_every_seconds=0.2), single):

            def all_read() -> bool:
                more_came(commits, found, 0)
                newest = {row.partition: row.offset for row in found if row.topic}
                return newest == {0: 30, 1: 20}

            wait_until(all_read, 60, lambda: str(found))
    assert single.committed(group) == {("commits.in", 0): 30, ("commits.in", 1): 20}
    assert all(row.offset is not None for row in found)


def test_an_open_transaction_does_not_hide_other_groups(kafka: KafkaCluster, read_topic: str) -> None:
    waiting, beside = new_group(3), new_group(3)
    with (
        tailing(kafka, groups={waiting, beside}.__contains__) as commits,
        transactions(kafka, waiting) as producer,
        committing(kafka, beside, read_topic) as consumer,
    ):
        producer.begin_transaction()
        place = TopicPartition(read_topic, 0)
        producer.send_offsets_to_transaction({place: OffsetAndMetadata(5, "", -1)}, waiting)
        consumer.commit({0: 9})
        found = commits_of(commits.collect(now_ms()))
        assert_as_made(found, consumer.made)

        producer.commit_transaction()
        later: list[Commit] = []
        wait_until(lambda: more_came(commits, later, 1), 30)
        assert [row[:4] for row in later] == [(waiting, read_topic, 0, 5)]
        assert later[0].order < found[0].order


def test_a_start_looks_back_as_far_as_configured(kafka: KafkaCluster, read_topic: str) -> None:
    group = new_group()
    with committing(kafka, group, read_topic) as consumer:
        for offset in range(4):
            consumer.commit({0: offset})
            made_ms = consumer.made[-1].before_ms
            wait_until(lambda after=made_ms: now_ms() > after + 2, 5)  # type: ignore[misc]
        third_ms = consumer.made[2].after_ms

        def offsets(now: int, **limits: float) -> list[int | None]:
            with tailing(kafka, groups=group.__eq__, limits=FetchLimits(**limits)) as commits:  # type: ignore[arg-type]
                return [row.offset for row in commits_of(commits.collect(now))]

        assert offsets(now_ms()) == [0, 1, 2, 3]
        assert offsets(third_ms + 60_000, look_back_seconds=60) == [2, 3]
        assert offsets(now_ms(), look_back_records=1) == [3]
        assert offsets(now_ms() + 60_000, look_back_seconds=0) == []


def test_records_beyond_the_limit_of_a_run_come_later_and_are_reported(kafka: KafkaCluster, read_topic: str) -> None:
    groups = [new_group(partition) for partition in range(6)]
    small = FetchLimits(look_back_seconds=0, run_bytes=900, response_bytes=300)
    with tailing(kafka, groups=set(groups).__contains__, limits=small) as commits:
        commits.collect(now_ms() + 60_000)
        made = []
        for group in groups:
            with committing(kafka, group, read_topic) as consumer:
                for offset in range(20):
                    consumer.commit({0: offset, 1: offset})
                made += consumer.made
        found: list[Commit] = []
        reasons: list[str] = []
        behind: list[int] = []
        for _ in range(len(made)):
            collected = commits.collect(now_ms())
            found += commits_of(collected)
            reasons += [f"{failure.target}: {failure.reason}" for failure in collected.failures]
            behind.append(commits.behind)
            if not collected.failures:
                break

    assert len(behind) > 2
    assert behind == sorted(behind, reverse=True)
    assert behind[-1] == 0
    assert reasons[0].startswith(f"backlog: {behind[0]} records of ")
    for group in groups:
        assert_as_made([row for row in found if row.group == group], [one for one in made if one.group == group])


def test_it_goes_on_where_it_was_when_a_leader_dies_and_comes_back(kafka: KafkaCluster, read_topic: str) -> None:
    groups = [new_group(partition) for partition in range(6)]
    found: list[Commit] = []
    made: list[tuple[str, int]] = []

    def commit(offset: int) -> None:
        for group in groups:
            kafka.commit(group, {(read_topic, 0): offset})
            made.append((group, offset))

    with tailing(kafka, groups=set(groups).__contains__) as commits:

        def all_came() -> bool:
            return more_came(commits, found, len(made))

        commit(1)
        wait_until(all_came, 30, lambda: str(found))
        leader = leaders(kafka)[0]
        kafka.node(leader).kill()
        during = commits.collect(now_ms())  # before Kafka notices: the partitions still have that leader
        found.extend(commits_of(during))
        assert during.fallback is None
        assert during.batches
        assert [failure.target for failure in during.failures] == [f"broker {leader}"]
        commit(2)
        wait_until(all_came, 60, lambda: str(found))
        kafka.heal()
        commit(3)
        wait_until(all_came, 60, lambda: str(found))
        wait_until(lambda: not commits.collect(now_ms()).failures, 30)

    for group in groups:
        assert [row.offset for row in found if row.group == group] == [1, 2, 3]


def test_a_partition_without_leader_affects_only_itself(start_kafka: Callable[..., KafkaCluster]) -> None:
    kafka = start_kafka(2, settings={"offsets.topic.replication.factor": "1"})
    kafka.create_topic(TOPIC, assignment={0: [1]})
    groups = [new_group(partition) for partition in range(6)]
    for group in groups:
        kafka.commit(group, {(TOPIC, 0): 1})
    with tailing(kafka) as commits:
        commits.collect(now_ms())
        kafka.node(2).kill()
        kafka.settle()
        lost = sorted(partition for partition, leader in leaders(kafka).items() if leader != 1)
        alive = [group for group in groups if offsets_partition(group) not in lost]
        assert lost
        for group in alive:
            kafka.commit(group, {(TOPIC, 0): 2})
        collected = commits.collect(now_ms())

        [failure] = collected.failures
        assert failure.target == "partitions"
        assert failure.reason.startswith(f"no leader for {len(lost)} partition")
        assert sorted(row.group for row in commits_of(collected)) == sorted(alive)

        kafka.heal()
        for group in groups:
            kafka.commit(group, {(TOPIC, 0): 3})
        found: list[Commit] = []
        wait_until(lambda: more_came(commits, found, 6), 30, lambda: str(found))
        assert sorted((row.group, row.offset) for row in found) == sorted((group, 3) for group in groups)


@pytest.fixture(scope="module")
def single() -> Iterator[KafkaCluster]:
    """A node whose offsets topic may be hurt."""
    with running_kafka(1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        yield cluster


def test_deleted_records_are_reported_and_reading_continues(single: KafkaCluster) -> None:
    group = new_group()
    partition = offsets_partition(group)
    single.commit(group, {(TOPIC, 0): 1})
    with tailing(single) as commits:
        commits.collect(now_ms())
        commits._positions[partition] += 1_000_000  # as if the partition had lost its end
        single.commit(group, {(TOPIC, 0): 2})
        lost = commits.collect(now_ms())
        after = commits.collect(now_ms())

    [failure] = lost.failures
    assert failure.target == "partitions"
    assert f"the position in 1 partition ({partition}) of {OFFSETS_TOPIC} is out of range" in failure.reason
    assert not after.failures
    assert [row.offset for row in commits_of(after, group)] == [1, 2]


def test_a_restarted_agent_reads_the_last_minutes_again_under_the_same_orders(single: KafkaCluster) -> None:
    group = new_group()
    with committing(single, group, TOPIC) as consumer:
        consumer.commit({0: 1})
        with tailing(single) as commits:
            before = commits_of(commits.collect(now_ms()), group)
        consumer.commit({0: 2})
        with tailing(single) as commits:
            after = commits_of(commits.collect(now_ms()), group)
        assert after[:1] == before
        assert_as_made(after, consumer.made)


def test_a_group_that_moves_to_the_new_protocol_is_not_gone(single: KafkaCluster) -> None:
    group, topic = new_group(), "commits.converted"
    single.create_topic(topic)
    single.produce(topic, {0: 3})
    classic = KafkaConsumer(topic, bootstrap_servers=single.bootstrap, group_id=group, auto_offset_reset="earliest")
    # Longer than joining takes: kafka-python drops an assignment that arrives between two polls.
    assert classic.poll(timeout_ms=60_000)
    classic.close()
    with tailing(single, groups=group.__eq__) as commits:
        before = commits_of(commits.collect(now_ms()))
        single.produce(topic, {0: 2})
        arguments = ("--topic", topic, "--group", group, "--max-messages", "2")
        tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        done = single.tool(tool, *arguments, "--command-property", "group.protocol=consumer")
        assert done.returncode == 0, done.stderr
        after = commits.collect(now_ms())

    _, deleted_groups = read_plainly(single)
    assert any(group.encode() in key for key in deleted_groups), "the classic group's record is deleted"
    assert not after.failures
    assert commits.skipped > 0
    assert before[-1].offset == 3
    found = commits_of(after)
    assert {row[:3] for row in found} == {(group, topic, 0)}
    assert found[-1].offset == 5


def test_a_recreated_topic_is_read_from_its_beginning(start_kafka: Callable[..., KafkaCluster]) -> None:
    kafka = start_kafka(1)
    kafka.create_topic(TOPIC)
    group = new_group()
    with tailing(kafka) as commits:
        for offset in range(3):
            kafka.commit(group, {(TOPIC, 0): offset})
        commits.collect(now_ms())
        kafka.delete_topic(OFFSETS_TOPIC)
        nothing = commits.collect(now_ms())
        for offset in range(7, 12):
            kafka.commit(group, {(TOPIC, 0): offset})
        again = commits.collect(now_ms())

    assert (commits_of(nothing), list(nothing.failures)) == ([], [])
    assert [failure.target for failure in again.failures] == ["partitions"]
    assert "topic recreated" in again.failures[0].reason
    assert [row.offset for row in commits_of(again, group)] == list(range(7, 12))


@pytest.mark.parametrize("version", ["4.1.2", "3.9.2"])
def test_older_brokers_are_read_as_well(version: str, start_kafka: Callable[..., KafkaCluster]) -> None:
    kafka = start_kafka(1, version=version)
    kafka.create_topic(TOPIC, partitions=2)
    group = new_group()
    with tailing(kafka) as commits, committing(kafka, group, TOPIC) as consumer, transactions(kafka, "t") as producer:
        consumer.commit({0: 1, 1: 2}, note="n" * 200)
        consumer.commit({0: 2})
        assert_as_made(commits_of(commits.collect(now_ms()), group), consumer.made)

        place = TopicPartition(TOPIC, 0)
        for offset, end in ((8, producer.abort_transaction), (9, producer.commit_transaction)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction({place: OffsetAndMetadata(offset, "", -1)}, "transacting")
            end()
        found: list[Commit] = []
        wait_until(lambda: more_came(commits, found, 1), 30)
        assert [row[:4] for row in found] == [("transacting", TOPIC, 0, 9)]

        with kafka.admin() as admin:
            admin.delete_groups([group])
        deleted: list[Commit] = []
        wait_until(lambda: more_came(commits, deleted, 2), 30)
        assert {row[:4] for row in deleted[:2]} == {(group, TOPIC, 0, None), (group, TOPIC, 1, None)}
