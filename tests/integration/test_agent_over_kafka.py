"""The agent on a real cluster: what it records, and what a failed broker affects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.journal import Poll
from tests.harness.agents import INTERVAL_SECONDS, RunningAgent, rows_of, running_agent, write_config
from tests.harness.kafka import running_kafka
from tests.harness.waiting import wait_until

HOSTILE = ['with space,comma="quoted"', "new\nline \\ back", "emoji 😀 Ω", "x" * 200]
SOLO, SAFE = "faults.solo", "faults.safe"
TAKING_OVER = {f"groups of broker {broker}" for broker in (1, 2, 3)}  # they may say so while coordinators move


@pytest.fixture(scope="module", params=["4.3.1", "4.1.2", "3.9.2"])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three nodes of each Kafka version: a topic with one replica on each broker, and one with three."""
    with running_kafka(3, version=request.param) as kafka:
        kafka.create_topic(SOLO, assignment={p: [p + 1] for p in range(3)})
        kafka.create_topic(SAFE, partitions=6, replication=3)
        kafka.produce(SOLO, dict.fromkeys(range(3), 20))
        kafka.produce(SAFE, {p: 10 * p for p in range(6)})
        for group in ["billing", *(f"group-{number}" for number in range(8)), *HOSTILE]:
            kafka.commit(group, {(topic, p): 5 for topic in (SOLO, SAFE) for p in range(1, 3)})
        yield kafka


@pytest.fixture
def agent(cluster: KafkaCluster, tmp_path: Path) -> Iterator[RunningAgent]:
    cluster.heal()
    with running_agent(write_config(tmp_path, cluster.bootstrap)) as agent:
        wait_until(lambda: healthy(agent), 30, lambda: f"never healthy; log: {agent.messages()[-10:]}")
        yield agent
    cluster.heal()


def healthy(agent: RunningAgent) -> bool:
    polls = agent.polls()
    if not polls or not rows_of(polls[-1], "consumer_lag"):
        return False
    up = {row["target"] for row in rows_of(polls[-1], "source") if row["up"]}
    return up >= {"", "broker 1", "broker 2", "broker 3"} and not down(polls[-1]) and not stale(polls[-1])


def stale(poll: Poll, table: str = "consumer_lag") -> set[tuple[Any, ...]]:
    return {
        (row.get("group"), row["topic"], row["partition"])
        if table == "consumer_lag"
        else (row["topic"], row["partition"])
        for row in rows_of(poll, table)
        if row["stale"]
    }


def down(poll: Poll) -> set[str]:
    return {row["target"] for row in rows_of(poll, "source") if not row["up"]}


def test_it_records_what_kafka_says(agent: RunningAgent) -> None:
    poll = agent.polls()[-1]

    lag = {(r["group"], r["topic"], r["partition"]): r for r in rows_of(poll, "consumer_lag")}
    assert lag["billing", SAFE, 2]["lag"] == 15
    assert lag["billing", SOLO, 1]["lag"] == 15
    assert {group for group, _, _ in lag} >= set(HOSTILE), "names must pass unchanged"
    (overall,) = rows_of(poll, "cluster")
    assert (overall["brokers"], overall["offline_partitions"], overall["under_replicated_partitions"]) == (3, 0, 0)
    partitions = {(r["topic"], r["partition"]): r for r in rows_of(poll, "topic_partition")}
    assert partitions[SAFE, 5]["log_end_offset"] == partitions[SAFE, 5]["last_stable_offset"] == 50
    assert partitions[SAFE, 5]["log_start_offset"] == 0
    agent.wait_for("topic_partition", lambda rows: any(row["under_min_isr"] is False for row in rows))
    agent.wait_for("topic", lambda rows: any(r["topic"] == SAFE and r["retention_ms"] == 604_800_000 for r in rows))
    agent.wait_for("broker", lambda rows: [r["broker"] for r in rows if r["size_bytes"]] == [1, 2, 3])
    agent.wait_for("cluster", lambda rows: rows[0]["controller"] in {1, 2, 3} and rows[0]["quorum_voters"] == 3)


# Another broker each time: one that was killed leads nothing until Kafka moves leaders back.
@pytest.mark.parametrize(("fault", "victim"), [("kill", 2), ("pause", 3)])
def test_a_failed_broker_affects_only_what_it_owns(
    cluster: KafkaCluster, agent: RunningAgent, fault: str, victim: int
) -> None:
    alone = victim - 1  # the partition of the topic with one replica that is on the victim
    before = agent.polls()[-1]
    coordinated = {r["group"] for r in rows_of(before, "consumer_group") if r["coordinator"] == victim}
    led = {
        (r["topic"], r["partition"]) for r in rows_of(before, "topic_partition") if r["leader"] == victim
    }  # fmt: skip
    assert coordinated, "some group must be coordinated by the victim, or nothing is proved"
    getattr(cluster.node(victim), fault)()

    reported = agent.wait_for("source", lambda rows: f"broker {victim}" in {r["target"] for r in rows if not r["up"]})
    settled = agent.wait_for(
        "topic_partition", lambda rows: {(r["topic"], r["partition"]) for r in rows if r["offline"]} == {(SOLO, alone)}
    )
    during = [poll for poll in agent.polls(after=before.poll) if poll.poll <= settled.poll]

    assert reported.poll <= settled.poll
    assert len(during) > 1, "Kafka takes at least 2 s to notice, with a poll each second"
    for poll in during:
        assert down(poll) <= {f"broker {victim}", "partitions"} | TAKING_OVER
        owned = stale(poll, "topic_partition")
        assert owned <= led, "only partitions the victim led may be stale"
        for group, topic, partition in stale(poll):
            assert (topic, partition) in led or group in coordinated, (group, topic, partition)
    gaps = [(b.at_ms - a.at_ms) / 1000 for a, b in itertools.pairwise(during)]
    assert max(gaps, default=0) < 2 * INTERVAL_SECONDS, "the rest must keep coming with every poll"

    final = agent.wait_for("consumer_lag", lambda rows: {r["partition"] for r in rows if r["stale"]} == {alone})
    assert {(topic, p) for _, topic, p in stale(final)} == {(SOLO, alone)}, (
        "in the end only the partition without leader"
    )
    assert down(final) == {f"broker {victim}", "partitions"}
    (overall,) = rows_of(final, "cluster")
    assert (overall["offline_partitions"], overall["suspect_broker"]) == (1, victim)
    one = next(r for r in rows_of(final, "consumer_lag") if r["stale"])
    assert (one["lag"], one["age_seconds"] > 0) == (15, True), "stale shows the last known value and its age"

    cluster.heal()
    wait_until(lambda: healthy(agent), 60, lambda: f"never healthy again: {agent.messages()[-5:]}")
    assert any(message.startswith("source recovered") and f"broker {victim}" in message for message in agent.messages())


def test_a_topic_created_again_is_an_event_and_a_new_history(cluster: KafkaCluster, agent: RunningAgent) -> None:
    started = agent.newest()
    cluster.create_topic("again", partitions=1, replication=3)
    cluster.produce("again", {0: 30})
    agent.wait_for(
        "topic", lambda rows: any(row["topic"] == "again" and row["topic_id"] for row in rows), since=started
    )
    cluster.delete_topic("again")
    cluster.create_topic("again", partitions=1, replication=3)

    poll = agent.wait_for(
        "event", lambda rows: any(row["kind"] == "topic_recreated" for row in rows), since=started
    )  # fmt: skip
    (event,) = [row for row in rows_of(poll, "event") if row["kind"] == "topic_recreated"]
    assert event["subject"] == "again"
    assert event["before"] != event["after"]
