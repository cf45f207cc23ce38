"""`lagwatch lag` on a real cluster: the numbers of Kafka's own tool, members, hostile names, unavailable brokers."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.cli import command, lagwatch, on_terminal
from tests.harness.ports import closed_port
from tests.harness.waiting import wait_until

HOSTILE = ["two words", "a,b;c", "q\"uo'ted", "new\nline", "🎉 party", "日本語", "g" * 200, "star*", "-"]
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def filled(kafka: KafkaCluster) -> KafkaCluster:
    """Topics of our own with known lags."""
    kafka.create_topic("cli-orders", partitions=6, replication=3)
    kafka.create_topic("cli-quiet", partitions=2, replication=3)
    kafka.produce("cli-orders", {number: 20 + number for number in range(6)})
    kafka.commit("cli-billing", {("cli-orders", number): 10 for number in range(6)})
    kafka.commit("cli-two", {("cli-orders", 0): 20, ("cli-quiet", 1): 0})
    for number, group in enumerate(HOSTILE):
        kafka.commit(group, {("cli-orders", 0): number})
    return kafka


@contextmanager
def consuming(kafka: KafkaCluster, group: str, *client_ids: str) -> Iterator[None]:
    """Live members that read cli-orders and commit; the last of more members than partitions has none."""
    stop = threading.Event()

    def consume(client_id: str) -> None:
        consumer = KafkaConsumer(
            "cli-orders",
            bootstrap_servers=kafka.bootstrap,
            group_id=group,
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        while not stop.is_set():
            consumer.poll(timeout_ms=200)
        consumer.close(autocommit=False)

    threads = [threading.Thread(target=consume, args=(client_id,)) for client_id in client_ids]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def rows_of_the_tool(kafka: KafkaCluster, *groups: str) -> set[tuple[str, ...]]:
    """GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID."""
    arguments = [word for group in groups for word in ("--group", group)]
    done = kafka.tool(TOOL, *arguments, "--describe")
    rows = [
        line.split() for line in done.stdout.splitlines() if line.strip() and not line.startswith(("GROUP", "Consumer"))
    ]
    return {(*row[:7], row[7].removeprefix("/"), row[8]) for row in rows}


def test_numbers_are_those_of_kafkas_own_tool(filled: KafkaCluster) -> None:
    with consuming(filled, "cli-live", "reader-a", "reader-b"):
        wait_until(
            lambda: len({part["member"] for group in lagwatch("lag", "--bootstrap", filled.bootstrap, "--group",
                         "cli-live", "--json").json["groups"] for part in group["partitions"]}) == 2,
            60, "the two members did not share the partitions",
        )  # fmt: skip
        filled_groups = ("cli-billing", "cli-two", "cli-live")
        ours = lagwatch("lag", "--bootstrap", filled.bootstrap, *(f"--group={group}" for group in filled_groups))
        theirs = rows_of_the_tool(filled, *filled_groups)
    assert ours.code == 0, ours.stderr
    assert {tuple(line.split()[:9]) for line in ours.lines[1:]} == theirs
    assert len(theirs) == 14
    live = [row for row in theirs if row[0] == "cli-live"]
    assert {row[3] for row in live} == {"-"}  # assigned, nothing committed yet
    assert {row[7:] for row in live} == {("127.0.0.1", "reader-a"), ("127.0.0.1", "reader-b")}


def test_any_group_id_has_its_line_and_is_exact_in_json(filled: KafkaCluster) -> None:
    named = [f"--group={group}" for group in HOSTILE]
    ran = lagwatch("lag", "--bootstrap", filled.bootstrap, "--json", *named)
    found = {group["group"]: group["partitions"][0]["committed_offset"] for group in ran.json["groups"]}
    assert ran.code == 0, ran.stderr
    assert found == {group: number for number, group in enumerate(HOSTILE)}

    table = lagwatch("lag", "--bootstrap", filled.bootstrap, *named)
    assert len(table.lines) == 1 + len(HOSTILE)
    assert any(line.startswith("new\\nline ") for line in table.lines)


def test_patterns_filters_order_and_top(filled: KafkaCluster) -> None:
    ran = lagwatch("lag", "--bootstrap", filled.bootstrap, "--group", "cli-b*", "--topic", "cli-o*", "--sort", "lag",
                   "--min-lag", 12, "--top", 2)  # fmt: skip
    assert ran.code == 0
    assert [line.split()[2:6] for line in ran.lines[1:3]] == [["5", "10", "25", "15"], ["4", "10", "24", "14"]]
    assert ran.lines[3] == "... and 2 more rows"


def test_a_group_that_does_not_exist_is_a_problem(filled: KafkaCluster) -> None:
    ran = lagwatch("lag", "--bootstrap", filled.bootstrap, "--group", "cli-nobody", "--group", "cli-two")
    assert ran.code == 1
    assert "no group cli-nobody exists" in ran.stderr
    assert ran.lines[-1] == "no group cli-nobody exists"
    assert any(line.startswith("cli-two ") for line in ran.lines)


@pytest.fixture(scope="module")
def registered(slow_to_fence: KafkaCluster) -> KafkaCluster:
    """A cluster with a group, whose brokers stay registered while a test pauses them."""
    slow_to_fence.create_topic("cli-orders", partitions=6, replication=3)
    slow_to_fence.produce("cli-orders", {number: 20 + number for number in range(6)})
    slow_to_fence.commit("cli-billing", {("cli-orders", number): 10 for number in range(6)})
    return slow_to_fence


def coordinator_of_billing(kafka: KafkaCluster) -> int:
    """Kafka places groups at random, so a test must look it up."""
    [billing] = lagwatch("lag", "--bootstrap", kafka.bootstrap, "--group", "cli-billing", "--json").json["groups"]
    return int(billing["coordinator"])


def assert_billing_is_right_or_stale(groups: Sequence[Mapping[str, Any]]) -> None:
    [billing] = groups
    known = {part["partition"]: part["lag"] for part in billing["partitions"] if part["lag"] is not None}
    assert len(billing["partitions"]) == 6
    assert known, "the rest did not arrive"
    assert known == {partition: 10 + partition for partition in known}
    assert all(part["lag"] is not None or part["stale"] for part in billing["partitions"])


def test_a_hung_broker_affects_only_what_it_owns(registered: KafkaCluster) -> None:
    hung = next(broker for broker in (1, 2, 3) if broker != coordinator_of_billing(registered))
    registered.nodes[hung].pause()
    ran = lagwatch("lag", "--bootstrap", registered.bootstrap, "--group", "cli-*", "--json")
    assert ran.code == 1
    assert f"could not query broker {hung} (kafka): " in ran.stderr
    [failure] = ran.json["failures"]
    assert failure["target"] == f"broker {hung}"
    assert "no answer within" in failure["reason"]
    assert_billing_is_right_or_stale(ran.json["groups"])


def test_a_fenced_broker_and_the_partitions_without_a_leader_are_named(filled: KafkaCluster) -> None:
    hung = next(broker for broker in (1, 2, 3) if broker != coordinator_of_billing(filled))
    filled.create_topic("cli-alone", assignment={0: [hung]})
    filled.nodes[hung].pause()
    filled.settle()  # fenced: the others lead what it led, but for what has no other replica
    ran = lagwatch("lag", "--bootstrap", filled.bootstrap, "--group", "cli-billing", "--json")
    assert ran.code == 1
    failures = [(failure["target"], failure["reason"]) for failure in ran.json["failures"]]
    assert {target for target, _ in failures} == {f"broker {hung}", "partitions"}
    assert any("not registered with the cluster" in reason for target, reason in failures if target != "partitions")
    assert any("no leader for " in reason for target, reason in failures if target == "partitions")
    assert_billing_is_right_or_stale(ran.json["groups"])


def test_a_group_of_a_hung_coordinator_is_not_reported_as_gone(registered: KafkaCluster) -> None:
    registered.nodes[coordinator_of_billing(registered)].pause()
    ran = lagwatch("lag", "--bootstrap", registered.bootstrap, "--group", "cli-billing", "--json")
    assert ran.code == 1
    assert not ran.json["complete"]
    assert "groups may be missing: some coordinators could not be queried" in ran.stderr
    assert "no group cli-billing exists; it may be among those that could not be queried" in ran.stderr


def test_connection_refused_is_reported_quickly() -> None:
    started = time.monotonic()
    ran = lagwatch("lag", "--bootstrap", f"127.0.0.1:{closed_port()}", "--deadline", "50s")
    assert ran.code == 2
    assert "connection refused" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert time.monotonic() - started < 40, "it waited for its deadline"


def test_watch_shows_what_does_not_move_until_interrupted(filled: KafkaCluster) -> None:
    words = command("lag", "--bootstrap", filled.bootstrap, "--group", "cli-billing", "--watch", "--interval", "1s")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        unmoved = [
            line.split()[-1] for line in (process.stdout.readline() for _ in range(30)) if line.startswith("cli-b")
        ]
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        talk = process.stderr.read()
    assert unmoved[0] == "-"
    assert unmoved[-1].startswith(">")
    assert process.returncode == 130
    assert talk == ""


def test_a_closed_pipe_is_no_error(filled: KafkaCluster) -> None:
    words = command("lag", "--bootstrap", filled.bootstrap)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)


def test_colour_and_cutting_are_for_terminals_only(filled: KafkaCluster) -> None:
    words = ["lag", "--bootstrap", filled.bootstrap, "--group", "g*"]
    shown, piped = on_terminal(words, columns=120), lagwatch(*words).stdout
    assert "\x1b[" in shown
    assert "…" in shown
    assert "\x1b[" not in piped
    assert "g" * 200 in piped
