"""Reads verdicts from an agent's journal, or polls a cluster for a while, as the options of a command select."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lagwatch.cli import output
from lagwatch.cli.journal_windows import JournalWindows
from lagwatch.clock import Clock
from lagwatch.errors import SourceError
from lagwatch.evaluation import Evaluator
from lagwatch.journal import JournalReader
from lagwatch.snapshot.from_journal import clusters_in, view_journal
from lagwatch.snapshot.names import NamePatterns, pick_cluster
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import COMMITS, CONFIGS, KAFKA, LOGDIRS, TIMESTAMPS, UNREAD
from lagwatch.text import duration_text

if TYPE_CHECKING:
    from lagwatch.cli.live_source import LivePoller

TABLES = {"consumer_lag", "consumer_group", "topic_partition", "topic", "group_member"}


@dataclass(frozen=True, slots=True)
class DataSource:
    """The data source the options select. Without `seconds` it is an agent's journal."""

    bootstrap: str | None
    config: Path | None
    journal: Path | None
    cluster: str | None
    seconds: float | None
    every_seconds: float
    deadline_seconds: float | None

    @classmethod
    def of(
        cls, bootstrap: str | None, config: Path | None, journal: Path | None, cluster: str | None,
        seconds: float | None, every_seconds: float, deadline_seconds: float | None, *, default_seconds: float,
    ) -> DataSource:  # fmt: skip
        """Check that the options fit together; a mistake is a usage error."""
        if bootstrap is None and config is None and journal is None:
            raise typer.BadParameter("one of --bootstrap, --config or --journal must be given, none was")
        if bootstrap is not None and (config or journal):
            raise typer.BadParameter(f"not both --bootstrap and --{'config' if config else 'journal'}")
        if journal is not None and seconds is not None:
            raise typer.BadParameter("--for polls a cluster; --journal reads what an agent polled")
        if bootstrap is not None and seconds is None:
            seconds = default_seconds
        return cls(bootstrap, config, journal, cluster, seconds, every_seconds, deadline_seconds)

    @property
    def polls(self) -> bool:
        """Whether the command polls the cluster itself."""
        return self.seconds is not None


def read_journal(
    source: DataSource, groups: NamePatterns, *, with_windows: bool, clock: Clock | None = None
) -> list[ClusterView]:
    """The newest view of each cluster in an agent's journal, or of the one selected. Raises LagwatchError."""
    path, evaluators = _journal_of(source)
    names = clusters_in(JournalReader(path))
    if source.cluster is not None or not names:
        names = [pick_cluster(names, source.cluster, str(path))]
    views = []
    for name in names:
        windows = JournalWindows(path, groups, clock) if with_windows else None
        view = view_journal(path, name, TABLES, clock)
        views.append(replace(view, evaluated=windows.restore(view, evaluators.get(name)) if windows else None))
    return views


def _journal_of(source: DataSource) -> tuple[Path, dict[str, Evaluator]]:
    """The journal, and evaluators with the settings of each cluster, where a configuration is given."""
    if source.config is None:
        return Path(source.journal or ""), {}
    from lagwatch.assemble.verdicts import assemble_evaluator  # noqa: PLC0415
    from lagwatch.config import load_settings  # noqa: PLC0415 -- a journal alone needs no settings

    settings = load_settings(source.config)
    evaluators = {cluster.name: assemble_evaluator(cluster) for cluster in settings.clusters}
    return source.journal or settings.journal.path, evaluators


def open_poller(stack: ExitStack, source: DataSource, groups: NamePatterns) -> LivePoller:
    """A poller that evaluates what it polls, and closes its connections with the stack."""
    from lagwatch.cli.live_source import LivePoller, choose_cluster, select_names  # noqa: PLC0415 -- kafka is slow to import

    cluster = select_names(choose_cluster(source.bootstrap, source.config, source.cluster), groups, NamePatterns())
    every = cluster.intervals.model_copy(update={"kafka": timedelta(seconds=source.every_seconds)})
    cluster = cluster.model_copy(update={"intervals": every})
    sources = {KAFKA, CONFIGS, LOGDIRS, COMMITS, TIMESTAMPS, UNREAD}
    return stack.enter_context(
        LivePoller(cluster, sources, once={CONFIGS, LOGDIRS}, deadline_seconds=source.deadline_seconds)
    )


def poll_views(poller: LivePoller, every_seconds: float, groups: NamePatterns) -> Iterator[ClusterView]:
    """A view after each poll, without end. Raises SourceError when the first poll reaches no broker."""
    began = time.monotonic()
    first = True
    while True:
        started = time.monotonic()
        view = poller.poll()
        if first and view.unreachable:
            raise SourceError(f"cluster {view.cluster}: {view.unreachable}")
        yield replace(view, evaluated=poller.evaluated, watched_seconds=time.monotonic() - began)
        names = {name for (name,) in view.columns("consumer_group", "group")}
        if first and groups.names and view.complete and not any(groups(name) for name in names):
            return  # no need to wait for a group that does not exist
        first = False
        time.sleep(max(0.0, started + every_seconds - time.monotonic()))


def poll_for(views: Iterator[ClusterView], source: DataSource) -> ClusterView:
    """The view after the time the options give. Progress goes to stderr."""
    seconds = source.seconds or 0.0
    progress = _progress(seconds, source.every_seconds)
    last = next(views)
    while (last.watched_seconds or 0.0) < seconds:
        progress(last.watched_seconds or 0.0)
        following = next(views, None)
        if following is None:
            break
        last = following
    progress(None)
    return last


def _progress(seconds: float, every: float) -> Callable[[float | None], None]:
    text = f"watching for {duration_text(seconds)}, a poll every {duration_text(every)}"
    if not sys.stderr.isatty():
        output.warn(f"{text} ...")
        return lambda _: None

    def show(passed: float | None) -> None:
        line = "" if passed is None else f"{text}: {duration_text(max(seconds - passed, 0))} left"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    return show
