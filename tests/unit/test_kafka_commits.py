"""When the commits job fails, when it falls back to polls, and how often it retries after a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.kafka_client.offsets_fetch import FetchLimits, OffsetsTopicFetch
from collectors.kafka_commits import MISSING, UNAUTHORIZED, KafkaCommits
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected

NOW_MS = 1_700_000_000_000


class ScriptedConnection:
    """Returns empty fetches of a topic that may be read, is refused, is missing, or cannot be reached."""

    def __init__(self) -> None:
        self.topic = "readable"
        self.runs = 0
        self.commits: KafkaCommits | None = None

    def run(self, _: Any, __: float) -> OffsetsTopicFetch:
        self.runs += 1
        if self.topic == "unreachable":
            raise SourceError("no broker")
        assert self.commits is not None
        leaders = {} if self.topic == "missing" else {0: 1}
        positions = {0: 7, **self.commits._positions}
        fetch = OffsetsTopicFetch(self, leaders, positions, FetchLimits(), NOW_MS)  # type: ignore[arg-type]
        fetch.unauthorized = self.topic == "refused"
        return fetch


class CommitsJob:
    def __init__(self, *, optional: bool) -> None:
        self.connection = ScriptedConnection()
        self.commits = KafkaCommits("east", self.connection, optional=optional)  # type: ignore[arg-type]
        self.connection.commits = self.commits

    def collect(self, second: float, topic: str) -> Collected:
        self.connection.topic = topic
        return self.commits.collect(NOW_MS + int(second * 1000))


def outcome(collected: Collected) -> tuple[int, list[str], str | None]:
    return len(collected.batches), [failure.reason for failure in collected.failures], collected.fallback


@pytest.mark.parametrize("optional", [True, False])
def test_a_missing_acl_is_a_failure_only_where_the_topic_is_required(optional: bool) -> None:
    refused = outcome(CommitsJob(optional=optional).collect(0, "refused"))
    assert refused == ((0, [], UNAUTHORIZED) if optional else (0, [UNAUTHORIZED], None))


@pytest.mark.parametrize("optional", [True, False])
def test_a_hidden_topic_is_a_fallback_and_an_unreachable_cluster_a_failure(optional: bool) -> None:
    job = CommitsJob(optional=optional)
    assert outcome(job.collect(0, "missing")) == (0, [], MISSING)
    assert outcome(job.collect(10, "unreachable")) == (0, ["no broker"], None)
    assert outcome(job.collect(20, "readable")) == (1, [], None)


def test_a_refused_read_is_retried_once_a_minute() -> None:
    job = CommitsJob(optional=True)
    outcomes = [outcome(job.collect(second, "refused")) for second in range(0, 120, 10)]
    assert outcomes == [(0, [], UNAUTHORIZED)] * 12
    assert job.connection.runs == 2
    assert outcome(job.collect(115, "readable")) == (0, [], UNAUTHORIZED)
    assert outcome(job.collect(120, "readable")) == (1, [], None)
    assert outcome(job.collect(130, "refused")) == (0, [], UNAUTHORIZED), "it is noticed at once when it goes"


def test_a_wall_clock_that_is_set_back_does_not_delay_the_retry() -> None:
    job = CommitsJob(optional=True)
    job.collect(0, "refused")
    assert outcome(job.collect(-3600, "readable")) == (1, [], None)


def test_a_required_topic_is_retried_in_every_run() -> None:
    job = CommitsJob(optional=False)
    for second in range(0, 120, 10):
        job.collect(second, "refused")
    assert job.connection.runs == 12


def test_after_a_long_refusal_it_looks_back_again_instead_of_reading_all_of_it() -> None:
    job = CommitsJob(optional=True)
    job.collect(0, "readable")
    job.collect(60, "refused")
    assert job.commits._positions == {0: 7}
    job.collect(700, "refused")
    assert job.commits._positions == {}
