"""The Kafka job against real brokers: members of both group protocols, filters, controllers, old request forms."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer

from collectors.kafka_client import requests as wire
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_quorum import KafkaQuorum
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.name_filter import NameFilter
from lagwatch.protocols import Collected
from tests.harness.kafka import running_kafka
from tests.harness.polls import rows_of
from tests.harness.waiting import wait_until


@contextmanager
def connected(kafka: KafkaCluster) -> Iterator[KafkaConnection]:
    connection = KafkaConnection(ConnectionOptions(tuple(kafka.bootstrap.split(","))))
    try:
        yield connection
    finally:
        connection.close()


def group_row(collected: Collected, group: str) -> dict[str, Any] | None:
    return next((row for row in rows_of(collected.batches, "consumer_group") if row["group"] == group), None)


def test_a_classic_group_has_its_members_and_their_partitions(kafka: KafkaCluster) -> None:
    kafka.create_topic("members.classic", partitions=3, replication=1)
    with connected(kafka) as connection, consuming(kafka, "members.classic", "classic-readers"):
        poll = KafkaPoll("east", connection)
        collected = [poll.collect(0)]

        def settled() -> bool:
            collected[0] = poll.collect(0)
            # A poll lists groups before it requests members: the state may still be that of the rebalance.
            row = group_row(collected[0], "classic-readers")
            assigned = [row["assignment"] for row in members(collected[0], "classic-readers")]
            return row is not None and row["state"] == "Stable" and assigned == ["members.classic:0-2"]

        wait_until(settled, 30, lambda: str(members(collected[0], "classic-readers")))
        row = group_row(collected[0], "classic-readers")
        assert row is not None
        assert (row["state"], row["type"], row["members"], row["empty_members"]) == ("Stable", "classic", 1, 0)
        (member,) = members(collected[0], "classic-readers")
        assert (member["client_id"], member["host"]) == ("reader", "127.0.0.1")


def members(collected: Collected, group: str) -> list[dict[str, Any]]:
    return [row for row in rows_of(collected.batches, "group_member") if row["group"] == group]


@contextmanager
def consuming(kafka: KafkaCluster, topic: str, group: str) -> Iterator[None]:
    stop = threading.Event()

    def read() -> None:
        consumer = KafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, group_id=group, client_id="reader")
        while not stop.is_set():
            consumer.poll(timeout_ms=200)
        consumer.close()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=20)


def test_a_group_of_the_new_protocol_is_never_dead_and_has_members(kafka: KafkaCluster) -> None:
    kafka.create_topic("members.new", partitions=2, replication=1)
    with connected(kafka) as connection, java_consumer(kafka, "members.new", "new-readers"):
        poll = KafkaPoll("east", connection)
        seen: list[dict[str, Any]] = []

        def settled() -> bool:
            collected = poll.collect(0)
            row = group_row(collected, "new-readers")
            seen.extend([row] if row else [])
            return [m["assignment"] for m in members(collected, "new-readers")] == ["members.new:0-1"]

        wait_until(settled, 60, lambda: str(seen[-3:]))
        assert {row["type"] for row in seen} == {"consumer"}
        assert "Dead" not in {row["state"] for row in seen}
        assert (seen[-1]["members"], seen[-1]["empty_members"]) == (1, 0)


@contextmanager
def java_consumer(kafka: KafkaCluster, topic: str, group: str) -> Iterator[None]:
    command = [
        *kafka._jvm.tool("org.apache.kafka.tools.consumer.ConsoleConsumer"),
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--group", group),
        *("--consumer-property", "group.protocol=consumer"),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def test_only_watched_topics_and_groups_are_recorded(kafka: KafkaCluster) -> None:
    for topic in ("filter.in", "filter.out"):
        kafka.create_topic(topic, partitions=1, replication=1)
    for group in ("filter-in", "filter-out"):
        kafka.commit(group, {("filter.in", 0): 0, ("filter.out", 0): 0})
    with connected(kafka) as connection:
        poll = KafkaPoll(
            "east",
            connection,
            topics=NameFilter([r"filter\..*"], [".*out"]),
            groups=NameFilter(["filter-.*"], [".*out"]),
        )
        collected = poll.collect(0)
    assert [row["topic"] for row in rows_of(collected.batches, "topic_partition")] == ["filter.in"]
    assert [(row["group"], row["topic"]) for row in rows_of(collected.batches, "consumer_lag")] == [
        ("filter-in", "filter.in")
    ]
    assert rows_of(collected.batches, "cluster")[0]["brokers"] == 3


def test_brokers_that_accept_one_group_per_request_are_queried_group_by_group(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic("old.form", partitions=2, replication=1)
    for number in range(3):
        kafka.commit(f"old-{number}", {("old.form", p): number for p in range(2)})
    with connected(kafka) as connection:
        poll = KafkaPoll("east", connection, groups=NameFilter(["old-.*"]))
        expected = rows_of(poll.collect(0).batches, "consumer_lag")
        # Kafka 4 still speaks the old form; only what it says about itself is changed here.
        many_groups = type(wire.offset_fetch_request([]))
        monkeypatch.setattr(connection, "supports", lambda request: not isinstance(request, many_groups))
        actual = rows_of(poll.collect(0).batches, "consumer_lag")

    def key(row: dict[str, Any]) -> tuple[str, int]:
        return row["group"], row["partition"]

    assert sorted(actual, key=key) == sorted(expected, key=key)
    assert len(actual) == 6


def test_a_throttled_client_waits_and_reports_when_the_wait_is_too_long(start_kafka: Any) -> None:
    kafka: KafkaCluster = start_kafka(1)
    kafka.create_topic("throttled", partitions=3, replication=1)
    kafka.commit("throttled", {("throttled", 0): 0})
    config = "kafka.admin.ConfigCommand"
    # A share of the broker's time so small that every answer is throttled.
    quota = ("--entity-type", "clients", "--entity-name", "lagwatch", "--alter", "--add-config")
    done = kafka.tool(config, *quota, "request_percentage=0.01")
    assert done.returncode == 0, done.stderr
    with connected(kafka) as connection:
        patient = KafkaPoll("east", connection, deadline_seconds=20)
        hasty = KafkaPoll("east", connection, deadline_seconds=0.3)
        waited = [failure.reason for _ in range(3) for failure in patient.collect(0).failures]
        assert waited == []
        reasons = [failure.reason for _ in range(3) for failure in hasty.collect(0).failures]
    assert any("throttles" in reason for reason in reasons), reasons


def test_a_cluster_that_lost_two_of_three_controllers_has_no_controller() -> None:
    with running_kafka(2, controllers=3) as kafka, connected(kafka) as connection, connected(kafka) as other:
        quorum = KafkaQuorum("east", connection, deadline_seconds=3)
        healthy = quorum.collect(0)
        (row,) = rows_of(healthy.batches, "cluster")
        assert (row["active_controllers"], row["quorum_voters"]) == (1, 3)
        controllers = [node for node in kafka.nodes.values() if "controller" in node.roles]
        assert row["controller"] in {node.id for node in controllers}

        for node in controllers[:2]:
            node.kill()

        collected = [quorum.collect(0)]

        def none_left() -> bool:
            collected[0] = quorum.collect(0)
            return any("no controller" in failure.reason for failure in collected[0].failures)

        wait_until(none_left, 60, lambda: str(collected[0].failures))
        assert rows_of(collected[0].batches, "cluster")[0]["active_controllers"] == 0
        poll = KafkaPoll("east", other).collect(0)
        assert not poll.failures, "the brokers themselves still answer"
        for node in controllers[:2]:
            node.start()

        def back() -> bool:
            collected = quorum.collect(0)
            rows = rows_of(collected.batches, "cluster")
            return bool(rows) and rows[0]["active_controllers"] == 1

        wait_until(back, 60)
