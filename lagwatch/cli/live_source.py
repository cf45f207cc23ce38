"""Polls a cluster from the command line, without an agent.

It uses the collectors and the pipeline of the agent, so that a command and an agent never disagree.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lagwatch.assemble.cluster import assemble_cluster
from lagwatch.clock import Clock, Moment, SystemClock
from lagwatch.config import ClusterSettings, load_settings, parse_settings
from lagwatch.config.capacity import Counts
from lagwatch.config.settings import Selection
from lagwatch.errors import ConfigError, LagwatchError, SourceError
from lagwatch.evaluation import EvaluatedRows
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected, Job
from lagwatch.snapshot import ClusterView, Snapshot
from lagwatch.snapshot.names import NamePatterns, pick_cluster
from lagwatch.source_names import COMMITS, CONFIGS, KAFKA


def choose_cluster(bootstrap: str | None, config: Path | None, name: str | None) -> ClusterSettings:
    """The cluster the options name; either `bootstrap` or `config` is given. Raises LagwatchError."""
    if bootstrap is not None:
        if name is not None:
            raise LagwatchError("--cluster names a cluster of --config or --journal; --bootstrap needs none")
        return cluster_at(bootstrap)
    return cluster_in(Path(config or ""), name)


def cluster_at(bootstrap: str) -> ClusterSettings:
    """A cluster with only its addresses, which are also its name. Raises LagwatchError."""
    addresses = [address.strip() for address in bootstrap.split(",") if address.strip()]
    if not addresses:
        raise LagwatchError("--bootstrap: needs host:port, such as kafka1:9092")
    text = json.dumps({"clusters": [{"name": "kafka", "bootstrap": addresses}]})
    try:
        cluster = parse_settings(text, "--bootstrap").clusters[0]
    except ConfigError as error:
        why = error.problems[0].rpartition("]: ")[2]  # drops the location: there is no file
        raise LagwatchError(f"--bootstrap: {why}") from None
    return cluster.model_copy(update={"name": ",".join(cluster.bootstrap)})


def cluster_in(config: Path, name: str | None) -> ClusterSettings:
    """The cluster of that name in a configuration, or the only one. Raises LagwatchError."""
    settings = load_settings(config)
    names = [cluster.name for cluster in settings.clusters]
    return settings.clusters[names.index(pick_cluster(names, name, str(config)))]


def select_names(cluster: ClusterSettings, groups: NamePatterns, topics: NamePatterns) -> ClusterSettings:
    """The cluster with only the named groups and topics, instead of those of its configuration."""
    update = {
        key: Selection(include=tuple(wanted.patterns()))
        for key, wanted in (("groups", groups), ("topics", topics))
        if wanted.names
    }
    return cluster.model_copy(update=update)


def select_all_topics(cluster: ClusterSettings) -> ClusterSettings:
    """The cluster with every topic: filters do not apply to its health."""
    return cluster.model_copy(update={"topics": Selection()})


class LivePoller:
    """Polls one cluster, once or repeatedly; a context manager that closes its connections.

    `sources` are the jobs to run, those in `once` only the first time. `deadline_seconds` limits the wait for a response.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        sources: Collection[str],
        *,
        once: Collection[str] = (),
        deadline_seconds: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        _silence_logs()
        deadline = cluster.deadline.total_seconds() if deadline_seconds is None else deadline_seconds
        update: dict[str, Any] = {"deadline": timedelta(seconds=deadline)}
        if COMMITS not in sources:
            update["commits"] = "poll"
        self._cluster = cluster.model_copy(update=update)
        self._assembled = assemble_cluster(self._cluster, slow_deadline_seconds=deadline)
        self._jobs = {job.source: job for job in self._assembled.jobs if job.source in sources}
        self._pipeline = Pipeline(cluster.name, self._assembled.evaluator)
        self._pipeline.write_times.queries = self._assembled.timestamp_queries
        self._pipeline.evaluator.keeps_rows = True
        self._pipeline.unread_tails.queries = self._assembled.tail_queries
        self._clock = clock or SystemClock()
        self._snapshot = Snapshot(cluster.name)
        self._first: Moment | None = None
        self._once = set(once)

    @property
    def evaluated(self) -> EvaluatedRows | None:
        """The windows so far with their verdicts; None before the first response."""
        return self._pipeline.evaluator.rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._assembled.close()

    def poll(self) -> ClusterView:
        """Poll once. What cannot be queried is in the view's failures; nothing is raised for it."""
        complete, followed = True, None
        for source, (collected, seconds, now) in self._run_all().items():
            self._snapshot = self._snapshot.with_run(self._pipeline.observe(source, collected, seconds, now))
            if source == KAFKA:
                complete = collected.complete
                followed = None if self._first is None else now.monotonic - self._first.monotonic
                if collected.batches:
                    self._first = self._first or now
        self._jobs = {source: job for source, job in self._jobs.items() if source not in self._once}
        return ClusterView(self._snapshot, self._clock.wall_ms(), complete, followed_seconds=followed)

    def _run_all(self) -> dict[str, tuple[Collected, float, Moment]]:
        """Run all jobs in parallel, but the Kafka job after the configs job, which supplies min.insync.replicas.

        The commits come first in the result, since the poll is evaluated on them.
        """
        with ThreadPoolExecutor(len(self._jobs)) as pool:
            try:
                others = {source: pool.submit(self._run, job) for source, job in self._jobs.items() if source != KAFKA}
                if CONFIGS in others:
                    others[CONFIGS].result()
                poll = self._run(self._jobs[KAFKA])
                commits = {COMMITS: others.pop(COMMITS).result()} if COMMITS in others else {}
                return commits | {KAFKA: poll} | {source: future.result() for source, future in others.items()}
            except BaseException:
                self._assembled.close()  # else Ctrl-C would wait for brokers that do not respond
                raise

    def _run(self, job: Job) -> tuple[Collected, float, Moment]:
        now = Moment.now(self._clock)
        collected = job.collector.collect(now.wall_ms)
        return collected, self._clock.monotonic() - now.monotonic, now


def count_cluster(cluster: ClusterSettings) -> Counts:
    """Groups, topics, partitions and brokers, for `config check --sizes`. Raises SourceError when a count is incomplete."""
    with LivePoller(cluster, {KAFKA}) as poller:
        view = poller.poll()
    if view.unreachable or not view.complete:
        raise SourceError(view.unreachable or "; ".join(failed.reason for failed in view.failures))
    [totals] = view.merged("cluster")
    return Counts(
        groups=totals["groups"],
        group_partitions=sum(1 for _ in view.columns("consumer_lag", "partition")),
        topics=totals["topics"],
        partitions=totals["partitions"],
        brokers=totals["brokers"],
    )


def _silence_logs() -> None:
    """Keep log lines of libraries off stderr: the failures of a view already say what went wrong."""
    for name in ("lagwatch", "collectors", "kafka"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
