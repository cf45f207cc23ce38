"""Time lag against the truth on a real cluster: five kinds of traffic in parallel, 520 polls one second apart.

The agent runs in its own process, restarted half-way; the results are read from its journal. Records carry the timestamps
of their producers. After the polls the log is read: its timestamps are the truth.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.journal import Poll
from tests.harness.agents import batch_of, rows_of, running_agent, write_config
from tests.harness.simulated_log import HEAD, TimedVerdict, tally
from tests.harness.timed_records import ordered_producer, produce_at, times_of

POLLS, POLL_SECONDS = 520, 1.0
RUN_SECONDS = POLLS * POLL_SECONDS
TICK_SECONDS = 0.25
DAY = 86_400_000
DAYS = 7 * DAY
OLD_RECORDS = 20_000
ROUNDED_SECONDS = 0.1


@dataclass
class RecordTraffic:
    """How many records there are and how many are read, by seconds since the start; times of old records are given."""

    name: str
    written: Callable[[float], float]
    read: Callable[[float, RecordTraffic], float]
    before: int = 0
    sent_at: list[float] = field(default_factory=list)  # when each record was sent, in seconds since the start

    def count_sent_by(self, seconds: float) -> int:
        """Records there were at a moment."""
        return self.before + int(np.searchsorted(self.sent_at, seconds, side="right"))


def steady() -> RecordTraffic:
    """50 records a second, read 15 s late."""
    return RecordTraffic("steady", lambda at: 50 * at, lambda at, own: own.count_sent_by(at - 15))


def bursty() -> RecordTraffic:
    """600 records within a second each minute, silence between, read at 15 a second."""

    def written(at: float) -> float:
        number, into = divmod(at, 60)
        return 600 * (number + min(into, 1.0))

    def read(at: float, _: RecordTraffic) -> float:
        number, into = divmod(at, 60)
        return 600 * number + min(15 * into, 600)

    return RecordTraffic("bursty", written, read)


def idle() -> RecordTraffic:
    """A record every 40 s, read 25 s late; half-way one is written and never read, and then nothing."""
    last = RUN_SECONDS // 2

    def read(at: float, own: RecordTraffic) -> float:
        return min(own.count_sent_by(at - 25), max(last // 40 - 1, 0))

    return RecordTraffic("idle", lambda at: min(at, last) // 40, read)


def replay_of_days() -> RecordTraffic:
    """Seven days of records, many by day and few by night, read again from the start while new ones come."""
    return RecordTraffic("replay", lambda at: 2 * at, lambda at, _: 0.8 * OLD_RECORDS * at / RUN_SECONDS, OLD_RECORDS)


def stopped() -> RecordTraffic:
    """Records that come faster and slower; a group that reads all of them for a minute, and then none."""
    return RecordTraffic(
        "stopped",
        lambda at: 10 * at + 60 * (1 - np.cos(at / 10)),
        lambda at, own: own.count_sent_by(min(at, 60.0)),
    )


def old_times(now_ms: int) -> list[int]:
    """Times of records over seven days, their rate changing with the hour, in order."""
    random = np.random.default_rng(11)
    times = random.integers(now_ms - DAYS, now_ms - 60_000, 3 * OLD_RECORDS)
    by_day = 0.5 + 0.45 * np.sin(times / DAY * 2 * np.pi)
    chosen = times[random.random(len(times)) < by_day][:OLD_RECORDS]
    return [int(time) for time in np.sort(chosen)]


class Actor(threading.Thread):
    """Writes and reads one topic as its traffic says, until it is stopped."""

    def __init__(self, traffic: RecordTraffic, kafka: KafkaCluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._traffic, self._kafka, self._topic = traffic, kafka, topic
        self.ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with ordered_producer(self._kafka.bootstrap) as producer, committing(self._kafka, self._topic) as commit:
                began = time.monotonic()
                while not self.ending.wait(TICK_SECONDS):
                    at = time.monotonic() - began
                    for _ in range(int(self._traffic.written(at)) - len(self._traffic.sent_at)):
                        producer.send(self._topic, b"x" * 50, partition=0)
                        self._traffic.sent_at.append(at)
                    commit(int(min(self._traffic.read(at, self._traffic), self._traffic.count_sent_by(at))))
                producer.flush(timeout=30)
        except BaseException as error:  # noqa: BLE001  # reported by the test
            self.error = error


@contextmanager
def committing(kafka: KafkaCluster, topic: str) -> Iterator[Callable[[int], None]]:
    """Commits offsets for a group named as the topic."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap.split(","), group_id=topic, enable_auto_commit=False)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    try:
        yield lambda offset: consumer.commit({place: OffsetAndMetadata(offset, "", -1)})
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent wrote of one group at one poll; the times are as of the poll's end."""

    now_ms: float
    committed: int
    unread: bool
    seconds: float | None
    low: float | None
    high: float | None
    asked_broker: bool


@pytest.mark.timeout(1800)
def test_the_truth_lies_within_the_bounds_of_a_real_cluster(kafka: KafkaCluster, tmp_path: Path) -> None:
    traffics = [steady(), bursty(), idle(), replay_of_days(), stopped()]
    topic_of = {traffic.name: f"truth.{traffic.name}" for traffic in traffics}
    for number, topic in enumerate(topic_of.values()):
        kafka.create_topic(topic, assignment={0: [number % 3 + 1]}, config={"retention.ms": "-1"})
        kafka.commit(topic, {(topic, 0): 0})
    produce_at(kafka.bootstrap, topic_of["replay"], 0, old_times(time.time_ns() // 1_000_000))
    actors = [Actor(traffic, kafka, topic_of[traffic.name]) for traffic in traffics]
    config = write_config(tmp_path, kafka.bootstrap, extra="    groups: {include: ['truth[.].*']}")
    with ExitStack() as ends:
        ends.callback(_end, actors)
        for actor in actors:
            actor.start()
        answers = _answers_of_two_lives(config)
    assert [actor.error for actor in actors if actor.error] == []

    print(f"\n{POLLS} polls, {POLL_SECONDS} s apart, a restart half-way")
    print(HEAD)
    for name, topic in topic_of.items():
        truth = times_of(kafka.bootstrap, topic)
        found = [_beside(truth, answer) for answer in answers[topic]]
        summed = tally(found, POLL_SECONDS)
        print(summed.row(name, f"{sum(answer.asked_broker for answer in answers[topic]) / len(found):.0%}"))
        assert summed.polls >= 500
        assert summed.answered >= 0.99
        assert summed.inside >= 0.99
        assert summed.median_share <= 1.0


def _answers_of_two_lives(config: Path) -> dict[str, list[Answer]]:
    """What the agent writes, by group; it is stopped half-way and started again."""
    answers: dict[str, list[Answer]] = defaultdict(list)
    seen = 0
    for polls in (POLLS // 2, POLLS - POLLS // 2):
        polls_before = len(answers["truth.steady"])
        with running_agent(config) as agent:
            while len(answers["truth.steady"]) < polls_before + polls:
                time.sleep(POLL_SECONDS)
                for poll in agent.polls(after=seen):
                    seen = poll.poll
                    _take(poll, answers)
            assert agent.stop() == 0
    return answers


def _take(poll: Poll, answers: dict[str, list[Answer]]) -> None:
    (took,) = [row["duration_seconds"] for row in rows_of(poll, "source") if not row["target"]]
    now_ms = batch_of(poll, "consumer_lag").at_ms + took * 1000
    for row in rows_of(poll, "consumer_lag"):
        if row["stale"]:
            continue
        bounds = (row["lag_seconds"], row["lag_seconds_low"], row["lag_seconds_high"])
        answers[row["group"]].append(
            Answer(now_ms, row["committed_offset"], row["lag"] > 0, *bounds, row["lag_source"] == 2)
        )


def _end(actors: list[Actor]) -> None:
    for actor in actors:
        actor.ending.set()
    for actor in actors:
        actor.join(timeout=60)


def _beside(truth: np.ndarray[tuple[int], np.dtype[np.int64]], answer: Answer) -> TimedVerdict:
    """An answer beside the truth. Answers are kept to a tenth of a second, so bounds count half of that wider."""
    age = (answer.now_ms - int(truth[answer.committed])) / 1000 if answer.unread else 0.0
    low, high = answer.low, answer.high
    return TimedVerdict(
        age,
        answer.seconds or 0.0,
        (low or 0.0) - ROUNDED_SECONDS / 2,
        (high or 0.0) + ROUNDED_SECONDS / 2,
        answer.seconds is not None and high is not None,
        low is not None,
    )
