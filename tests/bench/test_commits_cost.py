"""Reading the offsets topic beside kafka-python's consumer with a decoder of one record each, on one cluster.

Prints commits a second and CPU a commit of both. Time is never asserted, since a busy machine would fail it; that both
find the same commits is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from collectors.kafka_client.offsets_fetch import FetchLimits
from collectors.kafka_commits import KafkaCommits
from lagwatch.batch import Batch
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.commit_load import fill_offsets_topic
from tests.harness.committing import Commit, now_ms, read_plainly, tailing
from tests.harness.cpu import CpuCost

GROUPS = 1000
ALL = FetchLimits(look_back_seconds=86_400, look_back_records=10**9)
REPEATS = 3


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
