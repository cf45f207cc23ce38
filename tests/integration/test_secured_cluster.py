"""The agent's collectors over SASL_SSL, with the ACLs of docs/acls.md, created by the commands printed there.

All collectors work with exactly these ACLs. Each missing ACL affects only its own data, and the source says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from collectors.kafka_commits import UNAUTHORIZED, KafkaCommits
from lagwatch.assemble.cluster import assemble_cluster
from lagwatch.clock import Moment, SettableClock
from lagwatch.config import load_settings
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.pipeline.sources import Sources, run_field
from lagwatch.protocols import Collected
from tests.harness.committing import now_ms
from tests.harness.secured_kafka import CLUSTER_ACL, CONFIGS_ACL, GROUP_ACL, TOPIC_ACL, reading_commits, without

Configure = Callable[..., Path]


def collect(file: Path, at_ms: int = 1_700_000_000_000) -> dict[str, Collected]:
    """What each collector of the agent returns, by source; configurations first, in the order of the agent."""
    [cluster] = load_settings(file).clusters
    cluster_jobs = assemble_cluster(cluster)
    try:
        return {job.source: job.collector.collect(at_ms) for job in cluster_jobs.jobs}
    finally:
        cluster_jobs.close()


def rows(collected: Collected, table: str) -> list[dict[str, Any]]:
    return [row for batch in collected.batches if batch.table == table for row in batch.rows.to_pylist()]


def test_with_the_documented_acls_every_collector_brings_all_its_tables(configure: Configure) -> None:
    collected = collect(configure())

    assert {source: list(found.failures) for source, found in collected.items() if found.failures} == {}
    brought = {source: {batch.table for batch in found.batches} for source, found in collected.items()}
    assert {source: tables for source, tables in brought.items() if tables} == {
        "kafka_configs": {"topic"},
        "kafka": {"topic", "topic_partition", "consumer_group", "group_member", "consumer_lag", "broker", "cluster"},
        "kafka_quorum": {"cluster", "broker"},
        "kafka_logdirs": {"topic_partition", "topic", "broker", "cluster"},
    }
    assert brought.keys() >= {"kafka_timestamps", "kafka_unread"}, "no requests, since there was no query"
    assert collected["kafka_commits"].fallback == UNAUTHORIZED, "polls are used, which is no failure"
    kafka = collected["kafka"]
    assert {row["group"] for row in rows(kafka, "consumer_group")} == {"billing", "classic", "new"}
    assert {row["group"] for row in rows(kafka, "group_member")} == {"classic", "new"}
    committed = {
        (r["topic"], r["partition"]): r["committed_offset"]
        for r in rows(kafka, "consumer_lag")
        if r["group"] == "billing"
    }
    assert committed == {("orders", 0): 3, ("orders", 1): 5, ("refunds", 0): 1}
    assert {row["under_min_isr"] for row in rows(kafka, "topic_partition")} == {False}


def test_without_describe_configs_only_what_is_configured_is_missing(
    secured: KafkaCluster, configure: Configure
) -> None:
    with without(secured, CONFIGS_ACL):
        collected = collect(configure())

    [failure] = collected["kafka_configs"].failures
    assert failure.target == "topics"
    assert "TopicAuthorizationFailed" in failure.reason
    source = Sources("east").observe("kafka_configs", collected["kafka_configs"], 0.1, Moment(1_700_000_000_000, 0.0))
    assert {row["target"]: (row["up"], row["error"]) for row in source.rows.to_pylist()} == {
        "": (True, None),
        "topics": (False, failure.reason),
    }
    assert {row["under_min_isr"] for row in rows(collected["kafka"], "topic_partition")} == {None}
    assert _failures_elsewhere(collected, "kafka_configs") == []
    assert {row["group"] for row in rows(collected["kafka"], "consumer_lag")} >= {"billing"}


def test_without_describe_on_the_cluster_sizes_and_quorum_are_missing(
    secured: KafkaCluster, configure: Configure
) -> None:
    with without(secured, CLUSTER_ACL):
        collected = collect(configure())

    assert ["ClusterAuthorizationFailed" in failure.reason for failure in collected["kafka_logdirs"].failures] == [True]
    assert ["ClusterAuthorizationFailed" in failure.reason for failure in collected["kafka_quorum"].failures] == [True]
    assert _failures_elsewhere(collected, "kafka_logdirs", "kafka_quorum") == []
    assert {row["group"] for row in rows(collected["kafka"], "consumer_group")} == {"billing", "classic", "new"}


def test_without_describe_on_groups_the_groups_are_listed_and_stale(
    secured: KafkaCluster, configure: Configure
) -> None:
    with without(secured, GROUP_ACL):
        collected = collect(configure())

    assert {row["group"]: row["stale"] for row in rows(collected["kafka"], "consumer_group")} == dict.fromkeys(
        ("billing", "classic", "new"), True
    )
    assert rows(collected["kafka"], "consumer_lag") == []
    assert {failure.target for failure in collected["kafka"].failures} == {"groups of broker 1"}
    assert all("GroupAuthorizationFailed" in failure.reason for failure in collected["kafka"].failures)
    assert _failures_elsewhere(collected, "kafka") == []
    ends = {(r["topic"], r["partition"]): r["log_end_offset"] for r in rows(collected["kafka"], "topic_partition")}
    assert ends.keys() > {("orders", 0), ("orders", 1), ("refunds", 0)}
    assert None not in ends.values()


def test_without_describe_on_topics_groups_sizes_and_quorum_are_there(
    secured: KafkaCluster, configure: Configure
) -> None:
    with without(secured, TOPIC_ACL):
        collected = collect(configure())

    assert rows(collected["kafka"], "consumer_lag") == rows(collected["kafka"], "topic_partition") == []
    assert {row["group"] for row in rows(collected["kafka"], "consumer_group")} == {"billing", "classic", "new"}
    [failure] = collected["kafka"].failures  # Kafka leaves out the rest without an error; `check` reports it
    assert failure.reason.startswith("members of 1 group (new): TopicAuthorizationFailed")
    assert _failures_elsewhere(collected, "kafka") == []
    assert {row["topic"] for row in rows(collected["kafka_logdirs"], "topic")} >= {"orders", "refunds"}


def test_with_one_acl_more_every_commit_is_read(secured: KafkaCluster, configure: Configure) -> None:
    with reading_commits(secured):
        collected = collect(configure(commits="topic", commits_look_back="1d"), now_ms())

    assert _failures_elsewhere(collected) == []
    committed = {
        (row["topic"], row["partition"]): row["committed_offset"]
        for row in rows(collected["kafka_commits"], "commit")
        if row["group"] == "billing"
    }
    assert committed == {("orders", 0): 3, ("orders", 1): 5, ("refunds", 0): 1}


@pytest.mark.parametrize("describes", [True, False])
def test_without_it_the_commits_source_says_what_is_missing_and_polls_go_on(
    secured: KafkaCluster, configure: Configure, *, describes: bool
) -> None:
    with nullcontext() if describes else without(secured, TOPIC_ACL):
        found = collect(configure(commits="topic"))["kafka_commits"]

    assert (list(found.batches), found.complete) == ([], False)
    [failure] = found.failures
    assert failure.target == ""
    assert failure.reason == (
        "this user may not read the topic __consumer_offsets, so commits come from polls instead:"
        " grant the ACL Read on Topic __consumer_offsets (which includes Describe)"
    )


def test_commits_come_as_soon_as_the_acl_is_there_and_stop_when_it_is_taken_away(
    secured: KafkaCluster, configure: Configure
) -> None:
    [cluster] = load_settings(configure(commits="topic", commits_look_back="1d")).clusters
    cluster_jobs = assemble_cluster(cluster)
    try:
        [commits] = [job.collector for job in cluster_jobs.jobs if isinstance(job.collector, KafkaCommits)]
        before = commits.collect(now_ms())
        with reading_commits(secured):
            found = commits.collect(now_ms())
            secured.commit("later", {("orders", 0): 1})
        between = commits.collect(now_ms())
        with reading_commits(secured):
            later = commits.collect(now_ms())
    finally:
        cluster_jobs.close()
        with secured.admin() as admin:
            admin.delete_groups(["later"])

    refused = [[failure.reason for failure in run.failures] for run in (before, found, between, later)]
    assert refused == [[UNAUTHORIZED], [], [UNAUTHORIZED], []]
    assert {row["group"] for row in rows(found, "commit")} >= {"billing"}
    read_later = {row["group"] for row in rows(later, "commit")}
    assert "later" in read_later
    assert "billing" not in read_later  # it goes on where it was


def test_by_default_the_source_follows_the_acl_and_each_change_is_logged_once(
    secured: KafkaCluster, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "lagwatch.pipeline.sources")
    [cluster] = load_settings(configure(commits_look_back="1d")).clusters
    cluster_jobs = assemble_cluster(cluster)
    pipeline = Pipeline("east", cluster_jobs.evaluator)
    clock = SettableClock(now_ms())
    seen: list[tuple[bool, bool, str | None]] = []

    def run() -> None:
        for job in cluster_jobs.jobs:
            if job.source in ("kafka", "kafka_commits"):
                now = Moment.now(clock)
                batches = pipeline.observe(job.source, job.collector.collect(now.wall_ms), 0.1, now)
                [source] = [batch for batch in batches if batch.table == "source"]
                if job.source == "kafka_commits":
                    seen.append((pipeline.evaluator.tailing, run_field(source, "up"), run_field(source, "fallback")))
        clock.advance(61)

    try:
        run()
        with reading_commits(secured):
            run()
            run()
        run()
        run()
        with reading_commits(secured):
            run()
    finally:
        cluster_jobs.close()

    topic, polls = (True, True, None), (False, True, UNAUTHORIZED)
    assert seen == [polls, topic, topic, polls, polls, topic]
    in_use = f'fallback in use cluster=east source=kafka_commits reason="{UNAUTHORIZED}"'
    ended = "fallback ended cluster=east source=kafka_commits"
    assert [text for text in caplog.messages if "kafka_commits" in text] == [in_use, ended, in_use, ended]


def _failures_elsewhere(collected: Mapping[str, Collected], *sources: str) -> list[Any]:
    return [failure for source, found in collected.items() if source not in sources for failure in found.failures]
