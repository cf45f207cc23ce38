"""`lagwatch demo --history`: sends a generated history through pipeline, journal and shipper of the agent to InfluxDB.

It writes the last day first, then the days before it. Then it polls the same clusters every ten seconds until the demo
ends, so that dashboards stay current.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import AGENT
from lagwatch.cli.demo_processes import DEMO_VARIABLE, demo_folder
from lagwatch.clock import Moment, SettableClock
from lagwatch.demo.history.polls import ClusterHistory, Run
from lagwatch.demo.history.story import CLUSTERS, HOUR, StoryCluster
from lagwatch.demo.influxd import Influxd, find_influxd
from lagwatch.demo.kafka_layout import port_chooser
from lagwatch.errors import LagwatchError
from lagwatch.journal import Journal
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Sink
from lagwatch.shipping import Shipper, ShippingRate
from lagwatch.sinks.influx.sink import InfluxOptions, InfluxSink

_LIVE_SECONDS = 10.0
_NEWEST_SECONDS = 86_400.0  # written first: dashboards open on the last day
_NEAR_HOURS, _NEAR_SECONDS, _FAR_SECONDS = 4.0, 240.0, 1200.0
_STEPS_A_SHIPMENT = 20
_AGENT_NAME = "demo"


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """How much history to write where, and for how long to poll after it."""

    seconds: float
    into: str | None
    poll_seconds: float
    keep: Path | None


def run_history(options: HistoryOptions, report_progress: Callable[[str], None]) -> None:
    """Fill an InfluxDB with history, then keep polling. Raises LagwatchError."""
    # Failures are part of the story: they show on dashboards, not in the log.
    logging.getLogger("lagwatch.pipeline.sources").setLevel(logging.ERROR)
    with ExitStack() as stack:
        folder = stack.enter_context(demo_folder(options.keep))
        target = stack.enter_context(_influxdb(options.into, report_progress))
        now = time.time()
        newest = max(now - options.seconds, now - _NEWEST_SECONDS)
        sink = InfluxSink(target)
        with DemoHistory(CLUSTERS, newest, now, folder / "journal.db", sink) as history:
            report_progress("writing the last day of two generated clusters, east and west")
            _write_past(history, report_progress)
            for hint in _hints(target):
                report_progress(hint)
            if now - options.seconds < newest:
                report_progress(f"writing the {(newest - now + options.seconds) / 86_400:.3g} days before it")
                with DemoHistory(
                    CLUSTERS, now - options.seconds, now, folder / "before.db", sink, until=newest
                ) as before:
                    _write_past(before, report_progress)
            report_progress("polling the clusters until Ctrl-C")
            _keep_polling(history, options.poll_seconds)


def _write_past(history: DemoHistory, report_progress: Callable[[str], None]) -> None:
    started = time.monotonic()
    rows = history.write_past()
    report_progress(
        f"  {rows:,} rows written through pipeline and journal to InfluxDB in {time.monotonic() - started:.0f} s"
    )


class DemoHistory:
    """An agent with a settable clock: it processes, stores and ships the polls of a story as the agent does.

    The story ends at `end`; its history is written from `begin` to `end`, or to the earlier `until`.
    """

    def __init__(
        self,
        clusters: Sequence[StoryCluster],
        begin: float,
        end: float,
        journal: Path,
        sink: Sink,
        until: float | None = None,
    ) -> None:
        self._times = poll_times(begin, end, end if until is None else until)
        self._clock = SettableClock(round(begin * 1000))
        self._histories = {cluster.name: ClusterHistory(cluster, begin, end) for cluster in clusters}
        self._pipelines = {cluster.name: Pipeline(cluster.name) for cluster in clusters}
        self._journal = Journal(journal, history_seconds=end - begin + 86_400, clock=self._clock)
        self._shipper = Shipper(self._journal, sink, self._clock, ShippingRate(behind_seconds=86_400, polls_a_step=100))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shipper.sink.close()
        self._journal.close()

    def write_past(self) -> int:
        """Run every poll of the history and return the number of rows. Raises LagwatchError when InfluxDB fails."""
        rows = 0
        for number, at in enumerate(self._times, 1):
            rows += self.poll(at)
            if number % _STEPS_A_SHIPMENT == 0:
                self.ship()
        self.ship()
        return rows

    def poll(self, at: float) -> int:
        """Run every job of every cluster at this time, in one transaction of the journal; returns the number of rows."""
        self._clock.advance(at - self._clock.wall_ms() / 1000)
        now = Moment.now(self._clock)
        batches: list[Batch] = []
        took: dict[str, float] = {}
        for cluster, past in self._histories.items():
            for run in past.runs(at):
                batches += self._observe(cluster, run, now)
                took[f"{cluster}/{run.source}"] = run.seconds
        batches.append(self._agent_batch(took))
        self._journal.append(batches)
        return sum(len(batch) for batch in batches)

    def ship(self) -> None:
        """Ship the polls of the journal. Raises LagwatchError."""
        while self._shipper.ship_some():
            pass
        if self._shipper.fault is not None:
            raise LagwatchError(f"InfluxDB does not accept the history: {self._shipper.fault.reason}")

    def _observe(self, cluster: str, run: Run, now: Moment) -> list[Batch]:
        return self._pipelines[cluster].observe(run.source, run.collected, run.seconds, now)

    def _agent_batch(self, took: dict[str, float]) -> Batch:
        """The `agent` rows an agent writes; sizes are those of this journal."""
        stats = self._journal.stats()
        sinks = list(stats.cursors)
        names = ["", *took, *sinks]
        nothing: list[None] = [None] * (len(names) - 1)
        no_sink: list[None] = [None] * (1 + len(took))
        no_job: list[None] = [None] * len(sinks)
        return make_batch(
            AGENT,
            "",
            self._clock.wall_ms(),
            {
                "agent": [_AGENT_NAME] * len(names),
                "job": names,
                "cycle_seconds": [None, *took.values(), *no_job],
                "skipped_polls": [None, *[0] * len(took), *no_job],
                "memory_bytes": [120 * 2**20, *nothing],
                "journal_polls": [stats.polls, *nothing],
                "journal_bytes": [stats.bytes, *nothing],
                "journal_dropped_rows": [stats.dropped_rows, *nothing],
                "journal_in_memory": [stats.fault is not None, *nothing],
                "cursor_lag_polls": [*no_sink, *(cursor.lag_polls for cursor in stats.cursors.values())],
                "rejected_rows": [*no_sink, *[self._shipper.rejected_rows] * len(sinks)],
            },
        )


def poll_times(begin: float, end: float, until: float) -> Iterator[float]:
    """The times of polls: every twenty minutes, and every four in the last hours, so that writing is fast."""
    at = begin
    while at < until:
        yield at
        at += _NEAR_SECONDS if end - at <= _NEAR_HOURS * HOUR else _FAR_SECONDS
    yield until


def _keep_polling(history: DemoHistory, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(_LIVE_SECONDS, left))
        history.poll(time.time())
        history.ship()


@contextmanager
def _influxdb(into: str | None, report_progress: Callable[[str], None]) -> Iterator[InfluxOptions]:
    """The given InfluxDB, or a temporary one."""
    token = os.environ.get(DEMO_VARIABLE, Influxd.token)
    if into is not None:
        yield InfluxOptions(into, Influxd.org, Influxd.bucket, token)
        return
    binary = find_influxd()
    if binary is None:
        raise LagwatchError(
            "no influxd on PATH or in LAGWATCH_INFLUXD (`make test` builds one); "
            f"or give a running InfluxDB 2 with --into URL and its token in {DEMO_VARIABLE}"
        )
    report_progress(f"starting InfluxDB ({binary})")
    with Influxd(binary, port_chooser()) as server:
        yield InfluxOptions(server.url, server.org, server.bucket, server.token)


def _hints(target: InfluxOptions) -> list[str]:
    return [
        f"Grafana: add a data source of type InfluxDB, query language Flux, and import {_dashboards()}/*.json:",
        f"  URL {target.url}, organisation {target.org}, token {target.token}, default bucket {target.bucket}",
    ]


def _dashboards() -> Path:
    """The folder of the dashboards: inside the installed package, or next to it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "data" / "grafana" / "dashboards"
    return inside if inside.exists() else package.parent / "grafana" / "dashboards"
