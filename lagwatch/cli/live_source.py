"""Polls a cluster from the command line, without an agent.

The same collectors and the same pipeline as in the agent, so that a command and the agent never disagree.
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
from lagwatch.config import ClusterSettings, Selection, load_settings, parse_settings
from lagwatch.config.capacity import Counts
from lagwatch.errors import ConfigError, LagwatchError, SourceError
from lagwatch.evaluation import EvaluatedRows
from lagwatch.kafka_names import COMMITS, CONFIGS, KAFKA
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected, Job
from lagwatch.snapshot import ClusterView, Snapshot
from lagwatch.snapshot.names import NamePatterns, pick_cluster


def chosen_cluster(bootstrap: str | None, config: Path | None, name: str | None) -> ClusterSettings:
    """The cluster a person means; one of `bootstrap` and `config` is given. Raises LagwatchError."""
    if bootstrap is not None:
        if name is not None:
            raise LagwatchError("--cluster names a cluster of --config or --journal; --bootstrap is one by itself")
        return cluster_at(bootstrap)
    return cluster_in(Path(config or ""), name)


def cluster_at(bootstrap: str) -> ClusterSettings:
    """A cluster that is known by its addresses alone, which are its name too. Raises LagwatchError."""
    addresses = [address.strip() for address in bootstrap.split(",") if address.strip()]
    if not addresses:
        raise LagwatchError("--bootstrap: needs host:port, such as kafka1:9092")
    text = json.dumps({"clusters": [{"name": "kafka", "bootstrap": addresses}]})
    try:
        cluster = parse_settings(text, "--bootstrap").clusters[0]
    except ConfigError as error:
        why = error.problems[0].rpartition("]: ")[2]  # without the place in a file that does not exist
        raise LagwatchError(f"--bootstrap: {why}") from None
    return cluster.model_copy(update={"name": ",".join(cluster.bootstrap)})


def cluster_in(config: Path, name: str | None) -> ClusterSettings:
    """The cluster of that name in a configuration, or the only one. Raises LagwatchError."""
    settings = load_settings(config)
    names = [cluster.name for cluster in settings.clusters]
    return settings.clusters[names.index(pick_cluster(names, name, str(config)))]


def watching(cluster: ClusterSettings, groups: NamePatterns, topics: NamePatterns) -> ClusterSettings:
    """The cluster narrowed to what a person named. That wins over what its configuration watches."""
    update = {
        key: Selection(include=tuple(wanted.patterns()))
        for key, wanted in (("groups", groups), ("topics", topics))
        if wanted.names
    }
    return cluster.model_copy(update=update)


def watching_all(cluster: ClusterSettings) -> ClusterSettings:
    """The cluster with every topic: its health knows no filters."""
    return cluster.model_copy(update={"topics": Selection()})


class LivePoller:
    """Asks one cluster, once or again and again; a context manager that closes its connections.

    `sources` are the jobs to run, those in `once` only the first time. No answer is waited for longer than
    `deadline_seconds`.
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
        _hush()
        deadline = cluster.deadline.total_seconds() if deadline_seconds is None else deadline_seconds
        update: dict[str, Any] = {"deadline": timedelta(seconds=deadline)}
        if COMMITS not in sources:
            update["commits"] = "poll"
        self._cluster = cluster.model_copy(update=update)
        self._assembled = assemble_cluster(self._cluster, slow_deadline_seconds=deadline)
        self._jobs = {job.source: job for job in self._assembled.jobs if job.source in sources}
        self._pipeline = Pipeline(cluster.name, self._assembled.evaluator)
        self._pipeline.write_times.wanted = self._assembled.timestamp_queries
        self._pipeline.evaluator.keeps_rows = True
        self._pipeline.unread_tails.wanted = self._assembled.tail_queries
        self._clock = clock or SystemClock()
        self._snapshot = Snapshot(cluster.name)
        self._first: Moment | None = None
        self._once = set(once)

    @property
    def evaluated(self) -> EvaluatedRows | None:
        """The windows so far and what is said of them; None before anything was answered."""
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
        """All jobs side by side, but the Kafka job after the configs: it takes min.insync.replicas from them.

        The commits come first, since the poll is evaluated on them.
        """
        with ThreadPoolExecutor(len(self._jobs)) as pool:
            try:
                aside = {source: pool.submit(self._run, job) for source, job in self._jobs.items() if source != KAFKA}
                if CONFIGS in aside:
                    aside[CONFIGS].result()
                poll = self._run(self._jobs[KAFKA])
                commits = {COMMITS: aside.pop(COMMITS).result()} if COMMITS in aside else {}
                return commits | {KAFKA: poll} | {source: future.result() for source, future in aside.items()}
            except BaseException:
                self._assembled.close()  # else Ctrl-C would wait for brokers that do not answer
                raise

    def _run(self, job: Job) -> tuple[Collected, float, Moment]:
        now = Moment.now(self._clock)
        collected = job.collector.collect(now.wall_ms)
        return collected, self._clock.monotonic() - now.monotonic, now


def count_cluster(cluster: ClusterSettings) -> Counts:
    """How much there is to watch, for `config check --sizes`. Raises SourceError when it cannot all be counted."""
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


def _hush() -> None:
    """Keep the logs of the libraries off stderr: what they would say is in the failures, once and in words."""
    for name in ("lagwatch", "collectors", "kafka"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
