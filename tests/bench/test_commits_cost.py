"""Reading the offsets topic, compared with kafka-python's consumer and a decoder of single records, on one cluster.

Prints commits per second and CPU per commit of both. Asserts that both find the same commits, but no times: a busy machine
would fail them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from collectors.kafka_client.offsets_fetch import FetchLimits
from collectors.kafka_commits import KafkaCommits
from lagwatch.assemble.cluster import assemble_cluster
from lagwatch.batch import Batch
from lagwatch.clock import SystemClock
from lagwatch.config import parse_settings
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.runtime.agent import open_journal
from lagwatch.runtime.job import JobOutcome, JobRunner
from lagwatch.source_names import COMMITS, KAFKA
from tests.harness.commit_load import fill_offsets_topic
from tests.harness.committing import Commit, now_ms, read_plainly, tailing
from tests.harness.cpu import CpuCost

GROUPS = 1000
ALL = FetchLimits(look_back_seconds=86_400, look_back_records=10**9)
REPEATS = 3
A_RUN = 100_000  # commits in the 10 s between two runs


@dataclass(frozen=True, slots=True)
class _CommitsCost:
    commits: int
    partitions_a_commit: int
    ours: CpuCost
    runs: int
    plain: CpuCost


@pytest.mark.parametrize(("partitions_a_commit", "made"), [(20, 500_000), (1, 100_000)])
def test_reading_commits_costs_a_small_part_of_what_a_consumer_costs(
    start_kafka: Callable[..., KafkaCluster], partitions_a_commit: int, made: int
) -> None:
    kafka = start_kafka(1, heap="1g", settings={"offsets.topic.num.partitions": "50"})
    began = time.monotonic()
    fill_offsets_topic(kafka, made, groups=GROUPS, partitions_a_commit=partitions_a_commit)
    print(f"\n{made:,} commits made in {time.monotonic() - began:.0f} s, {partitions_a_commit} a request", flush=True)

    costs = []
    for _ in range(REPEATS):
        with tailing(kafka, limits=ALL) as commits:
            cost, batches = _read(commits)
        costs.append(cost)
    ours = sorted(costs, key=lambda cost: cost.cpu)[REPEATS // 2]
    start = CpuCost.so_far()
    plain, _ = read_plainly(kafka, check_crcs=False)
    theirs = CpuCost.so_far() - start

    found = [Commit(*row) for batch in batches for row in zip(*batch.rows.to_pydict().values(), strict=True)]
    assert len(found) == made + 1
    assert sorted(found) == sorted(plain)
    _print(_CommitsCost(made, partitions_a_commit, ours, len(batches), theirs))


def test_what_ten_thousand_commits_a_second_cost_the_agent(
    start_kafka: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    """A minute of the commits job: six runs over 100,000 commits each, evaluated and journalled."""
    kafka = start_kafka(1, heap="1g", settings={"offsets.topic.num.partitions": "50"})
    config = {
        "journal": {"path": str(tmp_path / "journal.db")},
        "clusters": [{"name": "east", "bootstrap": kafka.bootstrap}],
    }
    settings, clock = parse_settings(json.dumps(config), "bench"), SystemClock()
    cluster_jobs, journal = assemble_cluster(settings.clusters[0]), open_journal(settings, clock)
    state = ClusterState(Pipeline("east", cluster_jobs.evaluator))
    runners = {job.source: JobRunner(job, state, threading.Lock(), journal, clock) for job in cluster_jobs.jobs}
    made, spent = 0, CpuCost(0.0, 0.0)
    try:
        for turn in range(7):
            fill_offsets_topic(kafka, A_RUN, groups=GROUPS, partitions_a_commit=20, after=made)
            made += A_RUN
            start = CpuCost.so_far()
            runners[COMMITS].run()
            if turn:  # the first run connects, and meets every group for the first time
                spent += CpuCost.so_far() - start
            runners[KAFKA].run()
            assert runners[COMMITS].outcome is JobOutcome.FINE
        rows = sum(len(batch) for poll in journal.tail() for batch in poll.batches if batch.table == "commit")
    finally:
        cluster_jobs.close()
        journal.close()

    assert state.pipeline.evaluator.tailing
    assert rows == made + 1
    print(f"\n10,000 commits/s of {20 * GROUPS:,} group-partitions: {spent.cpu:.2f} s of CPU a minute", flush=True)


def _read(commits: KafkaCommits) -> tuple[CpuCost, list[Batch]]:
    """Everything there is, by as many runs as it takes."""
    batches: list[Batch] = []
    start = CpuCost.so_far()
    while not batches or commits.behind:
        collected = commits.collect(now_ms())
        batches += collected.batches
        assert {failure.target for failure in collected.failures} <= {"backlog"}
    return CpuCost.so_far() - start, batches


def _print(result: _CommitsCost) -> None:
    what = f"{result.commits:,} commits, {result.partitions_a_commit} a request"
    print(f"\n| {what} | commits/s | CPU us a commit | wall s | CPU s |")
    print("| --- | --- | --- | --- | --- |")
    for name, cost in ((f"lagwatch, {result.runs} runs", result.ours), ("KafkaConsumer, no checksums", result.plain)):
        speed, each = result.commits / cost.wall, 1e6 * cost.cpu / result.commits
        print(f"| {name} | {speed:,.0f} | {each:.2f} | {cost.wall:.2f} | {cost.cpu:.2f} |")
    print(f"The consumer's CPU over ours: {result.plain.cpu / result.ours.cpu:.0f}.", flush=True)
