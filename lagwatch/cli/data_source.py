"""Where verdicts come from: an agent's journal, or polls of our own for a while. What is known leaves as `DataView`s."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lagwatch.cli import output
from lagwatch.cli.journal_view import see_journal
from lagwatch.cli.journal_windows import JournalWindows
from lagwatch.cli.seen import CONFIGS, KAFKA, LOGDIRS, NamePatterns, Seen, pick_cluster
from lagwatch.clock import Clock
from lagwatch.errors import SourceError
from lagwatch.evaluation import EvaluatedRows, Evaluator
from lagwatch.journal import JournalReader
from lagwatch.snapshot.from_journal import clusters_in
from lagwatch.text import duration_text

if TYPE_CHECKING:
    from lagwatch.cli.live_source import LivePoller

TABLES = {"consumer_lag", "consumer_group", "topic_partition", "topic", "group_member"}
_COMMITS, _TIMES, _MARKERS = "kafka_commits", "kafka_timestamps", "kafka_unread"


@dataclass(frozen=True, slots=True)
class DataView:
    """What is known of one cluster: what was seen, and the windows behind it where they were asked for.

    `watched_seconds` is for how long we watched by ourselves; None where an agent did.
    """

    seen: Seen
    judged: EvaluatedRows | None = None
    watched_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where a person said to look. Without `seconds` an agent's journal is read."""

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
        """Check that the options fit together; a mistake is bad usage."""
        if bootstrap is None and config is None and journal is None:
            raise typer.BadParameter("one of --bootstrap, --config or --journal must be given, none was")
        if bootstrap is not None and (config or journal):
            raise typer.BadParameter(f"not both --bootstrap and --{'config' if config else 'journal'}")
        if journal is not None and seconds is not None:
            raise typer.BadParameter("--for polls a cluster; --journal reads what an agent saw")
        if bootstrap is not None and seconds is None:
            seconds = default_seconds
        return cls(bootstrap, config, journal, cluster, seconds, every_seconds, deadline_seconds)

    @property
    def polls(self) -> bool:
        """Whether we poll by ourselves."""
        return self.seconds is not None


def look_into_journal(
    place: DataSource, groups: NamePatterns, *, with_windows: bool, clock: Clock | None = None
) -> list[DataView]:
    """The newest an agent wrote of each cluster, or of the one asked for. Raises LagwatchError."""
    path, evaluators = _journal_of(place)
    names = clusters_in(JournalReader(path))
    if place.cluster is not None or not names:
        names = [pick_cluster(names, place.cluster, str(path))]
    views = []
    for name in names:
        recaller = JournalWindows(path, groups, clock) if with_windows else None
        seen = see_journal(path, name, TABLES, clock)
        views.append(DataView(seen, recaller.restore_states(seen, evaluators.get(name)) if recaller else None))
    return views


def _journal_of(place: DataSource) -> tuple[Path, dict[str, Evaluator]]:
    """The journal, and judges with the settings of each cluster as far as a configuration tells them."""
    if place.config is None:
        return Path(place.journal or ""), {}
    from lagwatch.assemble.verdicts import assemble_evaluator  # noqa: PLC0415
    from lagwatch.config import load_settings  # noqa: PLC0415 -- a journal alone needs no settings

    settings = load_settings(place.config)
    evaluators = {cluster.name: assemble_evaluator(cluster) for cluster in settings.clusters}
    return place.journal or settings.journal.path, evaluators


def watching_asker(stack: ExitStack, place: DataSource, groups: NamePatterns) -> LivePoller:
    """One that asks again and again, judges what it sees, and closes its connections with the stack."""
    from lagwatch.cli.live_source import LivePoller, chosen_cluster, watching  # noqa: PLC0415 -- kafka is slow to import

    cluster = watching(chosen_cluster(place.bootstrap, place.config, place.cluster), groups, NamePatterns())
    every = cluster.intervals.model_copy(update={"kafka": timedelta(seconds=place.every_seconds)})
    cluster = cluster.model_copy(update={"intervals": every})
    sources = {KAFKA, CONFIGS, LOGDIRS, _COMMITS, _TIMES, _MARKERS}
    return stack.enter_context(
        LivePoller(cluster, sources, once={CONFIGS, LOGDIRS}, deadline_seconds=place.deadline_seconds)
    )


def looks_of(asker: LivePoller, every_seconds: float, groups: NamePatterns) -> Iterator[DataView]:
    """A look after each poll, without end. Raises SourceError when the first poll reaches nobody, or no such group."""
    began = time.monotonic()
    first = True
    while True:
        started = time.monotonic()
        seen = asker.ask()
        if first and seen.unreachable:
            raise SourceError(f"cluster {seen.cluster}: {seen.unreachable}")
        yield DataView(seen, asker.judged, time.monotonic() - began)
        names = {name for (name,) in seen.newest_columns("consumer_group", "group")}
        if first and groups.names and seen.complete and not any(groups(name) for name in names):
            return  # it would be a long wait for nobody
        first = False
        time.sleep(max(0.0, started + every_seconds - time.monotonic()))


def watch_for(views: Iterator[DataView], place: DataSource) -> DataView:
    """The last look after the time asked for. What goes on is told on stderr."""
    seconds = place.seconds or 0.0
    progress = _progress(seconds, place.every_seconds)
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
    said = f"watching for {duration_text(seconds)}, a poll every {duration_text(every)}"
    if not sys.stderr.isatty():
        output.tell(f"{said} ...")
        return lambda _: None

    def show(passed: float | None) -> None:
        text = "" if passed is None else f"{said}: {duration_text(max(seconds - passed, 0))} left"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show
