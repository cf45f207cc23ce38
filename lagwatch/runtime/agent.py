"""The long-running agent: jobs on a scheduler, pipelines, the journal, and an orderly start, reload and stop."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from apscheduler.events import EVENT_JOB_MAX_INSTANCES
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from lagwatch.assemble.catalogue import catalogue_of
from lagwatch.assemble.cluster import ClusterJobs, assemble_cluster
from lagwatch.assemble.jmx import JmxAssembly
from lagwatch.assemble.sinks import assemble_sinks
from lagwatch.batch import Batch, is_retired
from lagwatch.clock import Clock, Moment, SystemClock
from lagwatch.config import Settings
from lagwatch.errors import ConfigError
from lagwatch.event_kinds import EventKind
from lagwatch.journal import Journal
from lagwatch.malloc import memory_bytes, share_one_allocator, trim_malloc
from lagwatch.pipeline.checkpoint import cluster_part, pack
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.events import Event, event_batch
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.pipeline.replay import restore_states
from lagwatch.pipeline.sources import retire_cluster
from lagwatch.runtime.clock_watch import ClockWatch
from lagwatch.runtime.job import JobOutcome, JobRunner
from lagwatch.runtime.self_metrics import JobMetrics, agent_batch
from lagwatch.shipping import Shipping
from lagwatch.source_names import AGENT

log = logging.getLogger(__name__)

_UPKEEP_SECONDS = 30.0
_SPREAD = 0.2  # first runs are spread over this share of the interval, so that clusters are not all polled at once
_STOP_SECONDS = 5.0  # running jobs get this long to finish once their connections are closed
_SPARE_THREADS = 2
_DRAIN_SECONDS = 60.0  # time for a single run of all jobs to reach the sinks


class Agent:
    """Watches the clusters of its settings until it is stopped.

    The constructor opens the journal (raises JournalError) and connects to no cluster; `start` returns at once, whether or
    not any cluster can be reached.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        share_one_allocator()
        self._clock = clock or SystemClock()
        self._settings = settings
        self._journal = open_journal(settings, self._clock)
        # Replaced whole, never changed in place: other threads iterate over them. Who needs several that fit together, or
        # the scheduler's jobs to be those of the runners, holds `_changing`, before any lock of a cluster.
        self._changing = threading.RLock()
        self._states: dict[str, ClusterState] = {}
        self._poll_locks: dict[str, threading.Lock] = {}
        self._runners: dict[str, JobRunner] = {}
        self._scheduler: Any = None
        self._shipping = Shipping(self._journal, self._clock)
        self._watch = ClockWatch(self._clock, self._clock_stepped)
        self._assembled = _Assembled.of(settings)
        self._restore()
        self._apply(self._assembled)
        self._checkpoint()  # or an agent that is killed again and again would replay an ever longer journal

    def start(self) -> None:
        """Start polling and shipping."""
        self._schedule()
        self._shipping.start(assemble_sinks(self._settings, self._clock))
        self._watch.start()
        log.info(
            "agent started name=%s clusters=%s journal=%s",
            self._settings.agent.name,
            ",".join(self._states),
            self._journal.path,
        )

    def run_once(self) -> list[JobOutcome]:
        """Run every job once, one after the other, and ship the results. Returns the outcome of each job."""
        self._shipping.prepare(assemble_sinks(self._settings, self._clock))
        for runner in self._runners.values():
            runner.run()
        self._shipping.drain(_DRAIN_SECONDS)
        self._checkpoint()
        return [runner.outcome for runner in self._runners.values()]

    def faults(self) -> list[str]:
        """Why collected rows could not be written to the journal or to sinks."""
        return [fault for fault in (self._journal.fault, *self._shipping.faults()) if fault is not None]

    def reload(self, settings: Settings) -> None:
        """Apply other settings; clusters that stay keep their state. If it raises ConfigError, nothing has changed."""
        refused = needs_restart(self._settings, settings)
        if refused:
            raise ConfigError(refused)
        assembled, sinks = _Assembled.of(settings), assemble_sinks(settings, self._clock)  # before anything is stopped
        with self._changing:
            self._scheduler.shutdown(wait=False)
            self._close_connections()
            self._shipping.stop()
            self._settings = settings
            self._journal.reconfigure(
                history_seconds=settings.journal.history.total_seconds(),
                partition_rows_every_seconds=settings.journal.partition_rows_every.total_seconds(),
            )
            self._apply(assembled)
            self._checkpoint()  # or a restart would replay the polls after it as if the settings had changed before them
            self._schedule()
            self._shipping.start(sinks)
        log.info("configuration reloaded clusters=%s", ",".join(self._states))

    def stop(self) -> None:
        """Stop polling, save a checkpoint and close the journal. A hung job delays this by a few seconds at most."""
        if self._scheduler is not None:
            self._watch.stop()
            self._scheduler.shutdown(wait=False)
        self._close_connections()
        self._shipping.stop()
        for lock in self._poll_locks.values():
            lock.acquire(timeout=_STOP_SECONDS)  # never released: a job that still hangs must not write after this
        self._save()
        self._journal.close()
        log.info("agent stopped")

    def _apply(self, assembled: _Assembled) -> None:
        """Poll with these jobs from now on. Clusters that stay keep their state; of the others the sources are retired."""
        self._assembled, now = assembled, Moment.now(self._clock)
        states: dict[str, ClusterState] = {}
        locks: dict[str, threading.Lock] = {}
        runners: dict[str, JobRunner] = {}
        for cluster, cluster_jobs in assembled.jobs.items():
            state = self._states.get(cluster) or ClusterState(Pipeline(cluster, cluster_jobs.evaluator))
            lock = self._poll_locks.get(cluster) or threading.Lock()
            with lock:  # a run of the previous jobs may not have finished
                sources = {job.source for job in cluster_jobs.jobs}
                self._journal.append(state.reconfigure(cluster_jobs.evaluator, sources, now))
                cluster_jobs.resume(state.snapshot)
                state.pipeline.write_times.queries = cluster_jobs.timestamp_queries
                state.pipeline.unread_tails.queries = cluster_jobs.tail_queries
            states[cluster], locks[cluster] = state, lock
            for job in cluster_jobs.jobs:
                runners[job.name] = JobRunner(job, state, lock, self._journal, self._clock)
        for gone in self._states.keys() - states.keys():
            with self._poll_locks[gone]:
                self._journal.append(self._states[gone].retire(now))
        self._states, self._poll_locks, self._runners = states, locks, runners

    def _schedule(self) -> None:
        """Schedule every job: one run at a time; several missed runs become one, and a late run is never dropped."""
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(len(self._runners) + _SPARE_THREADS)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        self._scheduler.add_listener(self._skipped, EVENT_JOB_MAX_INSTANCES)
        for name, runner in self._runners.items():
            self._add(name, runner.run, runner.job.interval_seconds, first_run_delay(name, runner.job.interval_seconds))
        self._add("upkeep", self._upkeep, _UPKEEP_SECONDS, _UPKEEP_SECONDS)
        checkpoint_every = self._settings.journal.checkpoint_every.total_seconds()
        self._add("checkpoint", self._checkpoint, checkpoint_every, checkpoint_every)
        self._scheduler.start()

    def _add(self, name: str, work: Any, interval_seconds: float, delay_seconds: float) -> None:
        first = datetime.now(UTC) + timedelta(seconds=delay_seconds)
        self._scheduler.add_job(
            work, "interval", seconds=interval_seconds, id=name, start_date=first, next_run_time=first
        )

    def _skipped(self, event: Any) -> None:
        runner = self._runners.get(event.job_id)
        if runner is not None:
            runner.skipped += 1
            log.warning(
                "poll skipped, the previous run is not finished job=%s running_for=%.0fs",
                event.job_id,
                self._clock.monotonic() - (runner.started or 0),
            )

    def _clock_stepped(self, seconds: float) -> None:
        """Reschedule every job to its interval after a step of the wall clock."""
        log.warning("wall clock stepped step=%+.1fs", seconds)
        now = Moment.now(self._clock)
        with self._changing:
            for name, runner in self._runners.items():
                elapsed = now.monotonic - runner.started if runner.started is not None else 0
                due = datetime.now(UTC) + timedelta(seconds=max(0.0, runner.job.interval_seconds - elapsed))
                self._scheduler.modify_job(name, next_run_time=due)
            for name in ("upkeep", "checkpoint"):
                self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))
            self._scheduler.wakeup()
        why = f"the wall clock of the agent's host was set {'forward' if seconds > 0 else 'back'}"
        for cluster in self._states:
            step = Event(EventKind.CLOCK_STEP, "", "", f"{seconds:+.1f} s", why)
            self._journal.append(event_batch(cluster, [step], now, AGENT))

    def _upkeep(self) -> None:
        self._journal.append([self._self_metrics(), *self._shipping.rows()])
        self._journal.trim(self._clock.wall_ms())

    def _self_metrics(self) -> Batch:
        return agent_batch(
            self._settings.agent.name,
            [JobMetrics(runner.job.name, runner.seconds, runner.skipped) for runner in self._runners.values()],
            self._journal.stats(),
            self._shipping.rejected_rows(),
            memory_bytes=memory_bytes(),
            at_ms=self._clock.wall_ms(),
        )

    def _checkpoint(self) -> None:
        with self._changing, ExitStack() as stack:  # no poll may fall between the state saved and the poll it covers
            for lock in self._poll_locks.values():
                stack.enter_context(lock)
            self._save()

    def _save(self) -> None:
        now_ms = self._clock.wall_ms()
        parts = {cluster_part(cluster): pack(state.save(now_ms)) for cluster, state in self._states.items()}
        self._journal.save_checkpoint(parts, now_ms)
        trim_malloc()

    def _restore(self) -> None:
        """Restore the states from the last checkpoint and the polls after it; retire clusters that were removed since."""
        now = Moment.now(self._clock)
        self._states = {
            cluster: ClusterState(Pipeline(cluster, jobs.evaluator)) for cluster, jobs in self._assembled.jobs.items()
        }
        restore_states(self._journal, self._states, now)
        polled = {batch.cluster for batch in self._journal.newest(tables={"source"}) if not is_retired(batch)}
        for gone in sorted(polled - {"", *self._states}):  # "": the agent itself
            self._journal.append(retire_cluster(gone, self._journal.newest(gone), now))

    def _close_connections(self) -> None:
        for runner in self._runners.values():
            runner.cancelled = True
        self._assembled.close()


@dataclass(frozen=True, slots=True)
class _Assembled:
    """The jobs of all clusters by cluster, and what their JMX shares. Nothing connects before the jobs run."""

    jobs: Mapping[str, ClusterJobs]
    jmx: JmxAssembly

    @classmethod
    def of(cls, settings: Settings) -> _Assembled:
        jmx = JmxAssembly(settings)
        return cls({cluster.name: assemble_cluster(cluster, jmx) for cluster in settings.clusters}, jmx)

    def close(self) -> None:
        """Close all connections; jobs that are polling fail at once."""
        for cluster_jobs in self.jobs.values():
            cluster_jobs.close()
        self.jmx.close()


def open_journal(settings: Settings, clock: Clock) -> Journal:
    """The journal of these settings. Raises JournalError."""
    journal = settings.journal
    return Journal(
        journal.path,
        cap_bytes=int(journal.max_size),
        history_seconds=journal.history.total_seconds(),
        partition_rows_every_seconds=journal.partition_rows_every.total_seconds(),
        catalogue=catalogue_of(settings),
        clock=clock,
    )


NEEDS_RESTART = {
    "journal.path": "the agent holds the file open and locked",
    "journal.max_size": "the size limit of the file and of its write-ahead log is set when the file is opened",
}
"""The keys that a reload cannot change, with the reason. Every other key is applied."""


def needs_restart(before: Settings, after: Settings) -> list[str]:
    """The settings that differ and cannot be changed in a running agent, each with the reason."""
    return [
        f"{key}: cannot be changed by a reload, since {reason}; restart the agent"
        for key, reason in NEEDS_RESTART.items()
        if attrgetter(key)(before) != attrgetter(key)(after)
    ]


def first_run_delay(name: str, interval_seconds: float) -> float:
    """The delay of a job's first run in seconds; depends only on its name and interval."""
    fraction = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32
    return fraction * _SPREAD * min(interval_seconds, 10.0)
