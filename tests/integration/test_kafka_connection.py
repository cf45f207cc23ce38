"""Connections of a job when brokers hang, deadlines are short, or the agent stops."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import request_any
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.connection_interface import Deadline
from collectors.kafka_client.session import PendingResult
from collectors.kafka_logdirs import KafkaLogDirs
from collectors.kafka_poll import KafkaPoll
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.errors import SourceError
from tests.harness.waiting import wait_until


def _connection(kafka: KafkaCluster) -> KafkaConnection:
    return KafkaConnection(ConnectionOptions(tuple(kafka.bootstrap.split(","))))


def test_a_job_that_never_had_time_enough_recovers_and_leaves_nothing_behind(kafka: KafkaCluster) -> None:
    threads = threading.active_count()
    connection = _connection(kafka)
    hasty = [KafkaPoll("east", connection, deadline_seconds=ms / 1000).collect(0) for ms in range(1, 100)]

    collected = KafkaPoll("east", connection, deadline_seconds=20).collect(0)

    assert sum(bool(poll.failures) for poll in hasty) > 5
    assert collected.failures == []
    connection.close()
    wait_until(lambda: threading.active_count() <= threads, 5, "a thread was left behind")


def test_a_broker_that_hangs_does_not_keep_the_others_sizes_away(slow_to_fence: KafkaCluster) -> None:
    slow_to_fence.create_topic("sizes", partitions=3, replication=3)
    connection = _connection(slow_to_fence)
    job = KafkaLogDirs("east", connection, deadline_seconds=6)
    assert job.collect(0).failures == []
    slow_to_fence.node(1).pause()

    collected = job.collect(0)

    assert [failure.target for failure in collected.failures] == ["broker 1"]
    assert collected.reached == ["broker 2", "broker 3"]
    connection.close()


def test_the_end_of_a_session_is_not_replaced_by_the_errors_it_causes() -> None:
    pending: PendingResult[int] = PendingResult()
    pending.fail(SourceError("the connection was closed"))
    pending.fail(SourceError("broker 1: connection lost"))
    pending.succeed(1)
    assert (str(pending.error), pending.result) == ("the connection was closed", None)


def test_closing_ends_work_under_way_and_refuses_more(kafka: KafkaCluster) -> None:
    connection = _connection(kafka)
    started = threading.Event()

    async def wait_for_ever(deadline: Deadline) -> None:
        started.set()
        while True:
            await request_any(connection, wire.brokers_request(), deadline)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(connection.run, wait_for_ever, 60)
        assert started.wait(10)
        connection.close()
        assert str(waiting.exception(timeout=5)) == "the connection was closed"
    refused = KafkaPoll("east", connection).collect(0)
    assert [failure.reason for failure in refused.failures] == ["the connection was closed"]
