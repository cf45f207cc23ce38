"""Runs the agent's Kafka job many times on a large, changing cluster, in its own process.

`python -m tests.harness.memory_run FOLDER CYCLES` prints one JSON line per cycle: cycle, rss and peak (bytes).
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pyarrow.compute as pc

from collectors.kafka_poll import KafkaPoll
from lagwatch.clock import SettableClock
from lagwatch.journal import Journal
from lagwatch.malloc import memory_bytes, share_one_allocator, trim_malloc
from lagwatch.pipeline.checkpoint import pack
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Job
from lagwatch.runtime.job import JobOutcome, JobRunner
from tests.harness.memory import peak_bytes
from tests.harness.synthetic_kafka import SyntheticCluster, synthetic_connection

POLL_SECONDS, UPKEEP_POLLS, CHECKPOINT_POLLS = 10, 3, 30


def run(folder: Path, cycles: int) -> None:
    """200 topics of 50 partitions and 1,000 groups with 100 committed offsets each."""
    share_one_allocator()
    cluster, clock = SyntheticCluster(200, 1000), SettableClock()
    state = ClusterState(Pipeline("large"))
    with Journal(folder / "journal.db", clock=clock) as journal:
        poll = KafkaPoll("large", synthetic_connection(cluster))
        cycle = JobRunner(Job("large", poll.source, poll, POLL_SECONDS), state, threading.Lock(), journal, clock)
        for number in range(1, cycles + 1):
            cycle.run()
            if cycle.outcome is not JobOutcome.FINE:
                raise AssertionError(cycle.outcome)
            if number % UPKEEP_POLLS == 0:
                journal.trim(clock.wall_ms())
            if number % CHECKPOINT_POLLS == 0:
                journal.save_checkpoint({"cluster:large": pack(state.save(clock.wall_ms()))}, clock.wall_ms())
                trim_malloc()
            print(json.dumps({"cycle": number, "rss": memory_bytes(), "peak": peak_bytes()}), flush=True)
            _check(journal, cluster)
            cluster.change(topics=5, recreated=2, groups=20)
            clock.advance(POLL_SECONDS)


def _check(journal: Journal, cluster: SyntheticCluster) -> None:
    """What was measured has to be right as well. Groups that are gone keep their rows for one poll more."""
    [newest] = journal.newest("large", ["consumer_lag"])
    rows = newest.rows
    fresh = rows.filter(pc.invert(rows["stale"]))
    found = (fresh.num_rows, pc.sum(fresh["lag"]).as_py())
    if found != (cluster.group_partitions, cluster.lag):
        raise AssertionError(f"found {found}, there are {cluster.group_partitions} with a lag of {cluster.lag}")


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
