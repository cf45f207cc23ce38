"""Consumers on a real cluster with expected verdicts, monitored by one agent in three ways at once.

The agent has the cluster under three names: `polls` uses lagwatch's rules with commits from polls, `topic` from the offsets
topic, and `burrow` by Burrow's rules from the offsets topic.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from lagwatch.demo.behaviours import (
    Bursting,
    CommittingWithoutMembers,
    Consuming,
    Restarting,
    Rewinding,
    Stalling,
    Stopping,
)
from lagwatch.demo.client_thread import Behaviour, running
from lagwatch.demo.exactly_once import Transforming
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.producers import Producing
from tests.harness.agents import RunningAgent, running_agent
from tests.harness.waiting import wait_until

POLL_SECONDS = 5
_ALL = -1  # for DeleteRecords: up to the end
BOTH = ("polls", "topic")
BUSY, RARE, SMALL, KEPT, AGAIN, OUT = (f"story.{name}" for name in ("busy", "rare", "small", "kept", "again", "out"))
_CONFIG = """
journal: {{path: {journal}, partition_rows_every: 1s}}
clusters:
"""
_CLUSTER = """
  - name: {name}
    bootstrap: {bootstrap}
    deadline: 4s
    commits: {commits}
    verdicts: {{mode: {mode}}}
    topics: {{include: ['story[.].*']}}
    groups: {{include: ['story-.*']}}
    intervals: {{kafka: {poll}s, quorum: 1h, configs: 1m, logdirs: 1h}}
"""


@dataclass(frozen=True, slots=True)
class Story:
    """A group, its expected status (None: always OK), and the start of its cause after the start of the story."""

    name: str
    members: tuple[Behaviour, ...]
    expected: str | None = None
    begins: float = 0.0
    within: float = 0.0

    @property
    def group(self) -> str:
        return f"story-{self.name}"


def stories() -> list[Story]:
    """All stories; times in seconds."""
    works = 45.0

    def group(name: str) -> str:
        return f"story-{name}"

    return [
        Story("healthy", (Consuming(group("healthy"), BUSY), Consuming(group("healthy"), BUSY))),
        Story("bursty", (Bursting(group("bursty"), BUSY, 30, burst_seconds=5),)),
        Story("rare", (Consuming(group("rare"), RARE),)),
        Story("transactional", (Transforming(group("transactional"), BUSY, OUT),)),
        Story("every-2m", (Consuming(group("every-2m"), BUSY, None, 120),)),
        Story("no-members", (CommittingWithoutMembers(group("no-members"), BUSY, 60),)),
        Story("restarting", (Restarting(group("restarting"), BUSY, 40, 40),)),
        Story("keeps-up", (Consuming(group("keeps-up"), BUSY, 60, 5),)),
        Story("slow", (Consuming(group("slow"), BUSY, 10, 5),), "WARN", within=180),
        Story("stalled", (Stalling(group("stalled"), BUSY, works, 2),), "STALL", works, 200),
        Story("stopped", (Stopping(group("stopped"), BUSY, works),), "STOP", works, 90),
        Story("rewound", (Rewinding(group("rewound"), SMALL, 60, catch_up_seconds=30),), "REWIND", 60, 60),
        Story("overtaken", (Stopping(group("overtaken"), KEPT, works),), "ERR", works, 240),
        Story("again", (Consuming(group("again"), AGAIN),)),
        Story("deleted", (Stopping(group("deleted"), BUSY, 30),)),
    ]


@dataclass(frozen=True, slots=True)
class Said:
    """A status of a group at one poll, in seconds after the start."""

    seconds: float
    status: str
    why: str


class Watched:
    """The statuses of each group by cluster, from the agent's journal."""

    def __init__(self, agent: RunningAgent, began_ms: int) -> None:
        self.agent = agent
        self._began_ms = began_ms
        self._seen = 0
        self.said: dict[tuple[str, str], list[Said]] = defaultdict(list)

    def look(self) -> None:
        """Read the polls since the last call."""
        for poll in self.agent.polls("consumer_group", self._seen):
            self._seen = max(self._seen, poll.poll)
            for batch in poll.batches:
                if batch.table != "consumer_group":
                    continue
                for row in batch.rows.to_pylist():
                    if row["status_text"]:
                        one = Said((batch.at_ms - self._began_ms) / 1000, row["status_text"], row["why"])
                        self.said[batch.cluster, row["group"]].append(one)

    def first(self, cluster: str, story: Story) -> float | None:
        """Seconds from the cause to the first expected status."""
        for one in self.said[cluster, story.group]:
            if one.status == story.expected and one.seconds >= story.begins:
                return one.seconds - story.begins
        return None

    def reported(self, story: Story) -> bool:
        """Whether both sources reported the expected status."""
        return story.expected is None or all(self.first(cluster, story) is not None for cluster in BOTH)

    def wrongs(self, story: Story) -> list[Any]:
        """False statuses: before the cause, or at all."""
        end = story.begins if story.expected else 10**9
        return [
            (cluster, one)
            for cluster in BOTH
            for one in self.said[cluster, story.group]
            if one.status != "OK" and one.seconds < end
        ]


@contextmanager
def monitored_stories(kafka: KafkaCluster, folder: Path, all_stories: list[Story]) -> Iterator[Watched]:
    """The consumers and an agent that monitors them, for the duration of a `with` block."""
    for name, partitions in ((BUSY, 2), (RARE, 1), (SMALL, 2), (KEPT, 1), (AGAIN, 1), (OUT, 1)):
        kafka.create_topic(name, partitions=partitions, replication=3)
    traffic = [
        Producing(BUSY, 40, (1, 1)),
        Producing(RARE, 1 / 60, (1,)),
        Producing(SMALL, 6, (1, 1)),
        Producing(KEPT, 5, (1,)),
        Producing(AGAIN, 5, (1,)),
    ]
    config = folder / "lagwatch.yml"
    text = _CONFIG.format(journal=folder / "journal.db")
    for name, commits, mode in (
        ("polls", "poll", "lagwatch"),
        ("topic", "topic", "lagwatch"),
        ("burrow", "topic", "burrow"),
    ):
        text += _CLUSTER.format(
            name=name, bootstrap=kafka.bootstrap, commits=commits, mode=mode, poll=POLL_SECONDS
        )  # fmt: skip
    config.write_text(text)
    with running_agent(config) as agent:
        wait_until(lambda: agent.newest() > 0, 30, "the agent never polled")
        began_ms = time.time_ns() // 1_000_000
        members = [member for story in all_stories for member in story.members]
        with running([*traffic, *members], kafka):
            yield Watched(agent, began_ms)


def overtake(kafka: KafkaCluster) -> None:
    """Delete all records of the topic, like retention."""
    with kafka.admin() as admin:
        admin.delete_records({TopicPartition(KEPT, 0): _ALL})


def delete_group(kafka: KafkaCluster, group: str) -> bool:
    """Delete a group like an operator; needs an existing group without members. Returns whether it is deleted."""
    with kafka.admin() as admin:
        try:
            answer = admin.delete_groups([group])
        except KafkaError:
            return False
    return bool(answer[group] == "OK")


def create_again(kafka: KafkaCluster) -> None:
    """Delete a topic and recreate it under its consumer."""
    kafka.delete_topic(AGAIN)
    kafka.create_topic(AGAIN, partitions=1, replication=3)


def table_of(watched: Watched, all_stories: list[Story]) -> str:
    """How long each verdict took, from both sources."""
    lines = ["| consumer | verdict | from polls, s | from the offsets topic, s |", "|---|---|---|---|"]
    for story in all_stories:
        wrong = {cluster: sum(1 for of, _ in watched.wrongs(story) if of == cluster) for cluster in BOTH}
        times = {cluster: watched.first(cluster, story) for cluster in BOTH}
        results = [
            f"{wrong[cluster]} of {len(watched.said[cluster, story.group])} polls not OK"
            if story.expected is None
            else ("-" if times[cluster] is None else f"{times[cluster]:.0f}")
            for cluster in BOTH
        ]
        lines.append(f"| {story.name} | {story.expected or 'OK'} | {results[0]} | {results[1]} |")
    return "\n".join(lines)
