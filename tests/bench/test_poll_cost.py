"""One full cycle of the agent, compared with Kafka's own `kafka-consumer-groups --all-groups --describe`, on one cluster.

Prints the cost of both in wall and CPU seconds; the CPU of the three brokers is listed separately. Asserts that both find
the same lag, but no times: a busy machine would fail them.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.compute as pc

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.connection_interface import Deadline
from collectors.kafka_poll import KafkaPoll
from lagwatch.batch import Batch
from lagwatch.clock import Moment, SystemClock
from lagwatch.demo.jars import kafka_jars
from lagwatch.demo.java import find_java
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.journal import Journal
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected, Job
from lagwatch.runtime.job import JobOutcome, JobRunner
from tests.harness.cpu import CpuCost, cpu_of, run_measured
from tests.harness.kafka_load import KafkaLoad, LoadSize

T = TypeVar("T")

SIZES = [LoadSize(500), LoadSize(2_000), LoadSize(10_000)]
AIM = 40  # the tool's CPU over ours, at the largest size
WARM_UP, CYCLES = 3, 11
PHASES = ("asking", "decoding", "rows", "pipeline", "journal")
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
# The tool's better result of two counts: with the options of Kafka's own start script, and with quick start-up.
TOOL_JVMS = {
    "as shipped": ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    "quick start": ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
}


def test_a_cycle_costs_a_small_part_of_what_kafkas_own_tool_costs(
    start_kafka: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    began = time.monotonic()

    def report(text: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {text}", flush=True)

    kafka = start_kafka(3, heap="1g", settings={"offsets.topic.replication.factor": "1"})
    report(f"Kafka {kafka.version} started, three nodes")
    load, results = KafkaLoad(kafka), []
    for size in SIZES:
        load.grow(size, report)
        results.append(_measure(kafka, size, tmp_path, report))
    _print_results(results)


@dataclass(frozen=True, slots=True)
class _PollCost:
    """The costs at one size; those of the brokers are above their idle use."""

    size: LoadSize
    ours: CpuCost
    brokers_for_us: float
    phases: dict[str, CpuCost]
    tool: CpuCost
    tool_jvm: str
    brokers_for_tool: float


def _measure(kafka: KafkaCluster, size: LoadSize, folder: Path, report: Callable[[str], None]) -> _PollCost:
    brokers = [node.pid for node in kafka.brokers]
    idle = _idle_rate(brokers)
    report(f"measuring {size.partitions} partitions, {size.groups} groups; idle brokers use {idle:.2f} CPU s a second")

    agent = _Agent(kafka.bootstrap, folder / f"journal-{size.partitions}.db")
    for _ in range(WARM_UP):
        agent.cycle()
    broker_start, start = cpu_of(brokers), time.monotonic()
    cycles = [agent.cycle() for _ in range(CYCLES)]
    brokers_for_us = (cpu_of(brokers) - broker_start - idle * (time.monotonic() - start)) / CYCLES
    agent.assert_found(size)
    agent.close()
    ours = CpuCost(*(statistics.median(column) for column in zip(*((c.wall, c.cpu) for c, _ in cycles), strict=True)))
    phases = {
        phase: CpuCost(
            statistics.median(laps[phase].wall for _, laps in cycles),
            statistics.median(laps[phase].cpu for _, laps in cycles),
        )
        for phase in PHASES
    }
    report(f"our cycle: {ours.wall:.3f} s wall, {ours.cpu:.3f} CPU s")

    runs = []
    for name, options in TOOL_JVMS.items():
        broker_start = cpu_of(brokers)
        tool = _run_tool(kafka, options, size)
        runs.append((tool, name, cpu_of(brokers) - broker_start - idle * tool.wall))
        report(f"the tool, {name}: {tool.wall:.1f} s wall, {tool.cpu:.1f} CPU s")
    return _PollCost(size, ours, brokers_for_us, phases, *min(runs, key=lambda run: run[0].cpu))


def _idle_rate(brokers: list[int], seconds: float = 3.0) -> float:
    """CPU the idle brokers use per second; waits a while for them to finish what the load left to do."""
    for _ in range(10):
        start = cpu_of(brokers)
        time.sleep(seconds)
        rate = (cpu_of(brokers) - start) / seconds
        if rate < 0.15:
            break
    return rate


def _run_tool(kafka: KafkaCluster, jvm: tuple[str, ...], size: LoadSize) -> CpuCost:
    """The cost of the tool, once it is sure that it found everything."""
    java = [str(find_java()), "-Xmx512m", *jvm, "-cp", f"{kafka_jars(kafka.version)}/*"]
    arguments = ["--bootstrap-server", kafka.bootstrap, "--all-groups", "--describe", "--timeout", "60000"]
    out, cost = run_measured([*java, TOOL, *arguments])
    rows = [line.split() for line in out.splitlines() if line.startswith("load-group-")]
    assert len(rows) == size.group_partitions
    assert sum(int(row[5]) for row in rows) == size.lag
    return cost


class _Agent:
    """The Kafka job of an agent, on its pipeline and with its journal, with a stopwatch between its phases."""

    def __init__(self, bootstrap: str, journal: Path) -> None:
        self._watch = _Stopwatch()
        self._connection = _TimedConnection(ConnectionOptions(tuple(bootstrap.split(","))), self._watch)

        def between_answers_and_rows() -> dict[str, int]:
            self._watch.lap("decoding")
            return {}

        # The poll looks min.insync.replicas up once the answers are decoded, to make rows of them.
        poll = KafkaPoll("bench", self._connection, min_isr=between_answers_and_rows, deadline_seconds=30)
        self._journal = _TimedJournal(journal, self._watch)
        job = Job("bench", poll.source, _TimedCollector(poll, self._watch), 10)
        pipeline = _TimedPipeline("bench", self._watch)
        self._cycle = JobRunner(job, ClusterState(pipeline), threading.Lock(), self._journal, SystemClock())

    def cycle(self) -> tuple[CpuCost, dict[str, CpuCost]]:
        """What one cycle cost, in all and by phase."""
        self._watch.start()
        start = CpuCost.so_far()
        self._cycle.run()
        cost = CpuCost.so_far() - start
        assert self._cycle.outcome is JobOutcome.FINE
        return cost, dict(self._watch.laps)

    def assert_found(self, size: LoadSize) -> None:
        """The journal holds every lag, member and end there is."""
        newest = {
            batch.table: batch.rows
            for batch in self._journal.newest("bench", ["consumer_lag", "consumer_group", "topic_partition"])
        }
        lag = newest["consumer_lag"]
        assert (lag.num_rows, pc.sum(lag["lag"]).as_py()) == (size.group_partitions, size.lag)
        groups = newest["consumer_group"]
        assert (groups.num_rows, pc.sum(groups["members"]).as_py()) == (size.groups, len(size.live))
        ends = newest["topic_partition"]
        ends = ends.filter(pc.starts_with(ends["topic"].dictionary_decode(), "load-topic-"))
        assert ends.num_rows == size.partitions
        assert all(ends[name].null_count == 0 for name in ("log_start_offset", "log_end_offset", "last_stable_offset"))

    def close(self) -> None:
        self._connection.close()
        self._journal.close()


@dataclass(slots=True)
class _Stopwatch:
    laps: dict[str, CpuCost] = field(default_factory=dict)
    _last: CpuCost = field(default_factory=CpuCost.so_far)

    def start(self) -> None:
        self.laps.clear()
        self._last = CpuCost.so_far()

    def lap(self, phase: str) -> None:
        """All since the last lap was this phase."""
        now = CpuCost.so_far()
        self.laps[phase] = now - self._last
        self._last = now


class _TimedConnection(KafkaConnection):
    def __init__(self, options: ConnectionOptions, watch: _Stopwatch) -> None:
        super().__init__(options)
        self._watch = watch

    def run(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], seconds: float) -> T:
        result = super().run(work, seconds)
        self._watch.lap("asking")
        return result


class _TimedCollector:
    source = KafkaPoll.source

    def __init__(self, poll: KafkaPoll, watch: _Stopwatch) -> None:
        self._poll, self._watch = poll, watch

    def collect(self, now_ms: int) -> Collected:
        collected = self._poll.collect(now_ms)
        self._watch.lap("rows")
        return collected


class _TimedPipeline(Pipeline):
    def __init__(self, cluster: str, watch: _Stopwatch) -> None:
        super().__init__(cluster)
        self._watch = watch

    def observe(self, source: str, collected: Collected, duration_seconds: float, now: Moment) -> list[Batch]:
        batches = super().observe(source, collected, duration_seconds, now)
        self._watch.lap("pipeline")
        return batches


class _TimedJournal(Journal):
    def __init__(self, path: Path, watch: _Stopwatch) -> None:
        super().__init__(path)
        self._watch = watch

    def append(self, batches: Any) -> int:
        poll = super().append(batches)
        self._watch.lap("journal")
        return poll


def _print_results(results: list[_PollCost]) -> None:
    print(f"\nOne full cycle (median of {CYCLES}) beside kafka-consumer-groups --all-groups --describe.")
    print(
        "wall s / CPU s / CPU s of the three brokers above idle; the tool with the cheaper of two sets of JVM options\n"
    )
    print("| partitions / groups / group-partitions | lagwatch | kafka-consumer-groups | tool CPU / our CPU |")
    print("| --- | --- | --- | --- |")
    for r in results:
        ours = f"{r.ours.wall:.3f} / {r.ours.cpu:.4f} / {r.brokers_for_us:.2f}"
        tool = f"{r.tool.wall:.1f} / {r.tool.cpu:.2f} / {r.brokers_for_tool:.2f} ({r.tool_jvm})"
        print(f"| {_words(r.size)} | {ours} | {tool} | {r.tool.cpu / r.ours.cpu:.0f} |")
    print("\nWhere our cycle goes: waiting is wall s, the rest CPU ms\n")
    print("| partitions / groups / group-partitions | waiting | asking | decoding | rows + pipeline | journal |")
    print("| --- | --- | --- | --- | --- | --- |")
    for r in results:
        asking, columns = r.phases["asking"], r.phases["rows"] + r.phases["pipeline"]
        cpu = [asking.cpu, r.phases["decoding"].cpu, columns.cpu, r.phases["journal"].cpu]
        cells = " | ".join(f"{1000 * seconds:.1f}" for seconds in cpu)
        print(f"| {_words(r.size)} | {max(asking.wall - asking.cpu, 0):.3f} | {cells} |")
    print()
    for before, after in itertools.pairwise(results):
        more = after.size.group_partitions / before.size.group_partitions
        dearer = after.ours.cpu / before.ours.cpu
        linear = "linear or better" if dearer <= more else "worse than linear"
        print(f"Growth to {_words(after.size)}: {more:.0f} times as many cost {dearer:.1f} times the CPU: {linear}.")
    ratio = results[-1].tool.cpu / results[-1].ours.cpu
    met = "met" if ratio >= AIM else "NOT met"
    print(f"Aim, at most 1/{AIM} of the tool's CPU at the largest size: {met} (1/{ratio:.0f}).")
    print(f"Total lag of all groups: equal at every size ({', '.join(str(r.size.lag) for r in results)}).")


def _words(size: LoadSize) -> str:
    return f"{size.partitions:,} / {size.groups:,} / {size.group_partitions:,}"
