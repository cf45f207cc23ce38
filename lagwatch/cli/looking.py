"""Where verdicts come from: an agent's journal, or polls of our own for a while. What is known leaves as `Look`s."""

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
from lagwatch.cli.recalling import Recaller
from lagwatch.cli.seen import CONFIGS, KAFKA, LOGDIRS, Seen, Wanted, pick_cluster
from lagwatch.clock import Clock
from lagwatch.errors import SourceError
from lagwatch.journal import JournalReader
from lagwatch.judging import Judge, JudgedRows
from lagwatch.words import in_words

if TYPE_CHECKING:
    from lagwatch.cli.asking import Asker

TABLES = {"consumer_lag", "consumer_group", "topic_partition", "topic", "group_member"}
_COMMITS, _TIMES, _MARKERS = "kafka_commits", "kafka_times", "kafka_markers"


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of one cluster: what was seen, and the windows behind it where they were asked for.

    `watched_seconds` is for how long we watched by ourselves; None where an agent did.
    """

    seen: Seen
    judged: JudgedRows | None = None
    watched_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
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
    ) -> Place:  # fmt: skip
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


def look_into_journal(place: Place, groups: Wanted, *, with_windows: bool, clock: Clock | None = None) -> list[Look]:
    """The newest an agent wrote of each cluster, or of the one asked for. Raises LagwatchError."""
    path, judges = _journal_of(place)
    names = sorted(name for name in JournalReader(path).latest("source") if name)
    if place.cluster is not None or not names:
        names = [pick_cluster(names, place.cluster, str(path))]
    looks = []
    for name in names:
        recaller = Recaller(path, groups, clock) if with_windows else None
        seen = see_journal(path, name, TABLES, clock)
        looks.append(Look(seen, recaller.recall(seen, judges.get(name)) if recaller else None))
    return looks


def _journal_of(place: Place) -> tuple[Path, dict[str, Judge]]:
    """The journal, and judges with the settings of each cluster as far as a configuration tells them."""
    if place.config is None:
        return Path(place.journal or ""), {}
    from lagwatch.config import load_settings  # noqa: PLC0415 -- a journal alone needs no settings
    from lagwatch.judge_wiring import wire_judge  # noqa: PLC0415

    settings = load_settings(place.config)
    judges = {cluster.name: wire_judge(cluster) for cluster in settings.clusters}
    return place.journal or settings.journal.path, judges


def watching_asker(stack: ExitStack, place: Place, groups: Wanted) -> Asker:
    """One that asks again and again, judges what it sees, and closes its connections with the stack."""
    from lagwatch.cli.asking import Asker, chosen_cluster, watching  # noqa: PLC0415 -- kafka is slow to import

    cluster = watching(chosen_cluster(place.bootstrap, place.config, place.cluster), groups, Wanted())
    every = cluster.intervals.model_copy(update={"kafka": timedelta(seconds=place.every_seconds)})
    cluster = cluster.model_copy(update={"intervals": every})
    sources = {KAFKA, CONFIGS, LOGDIRS, _COMMITS, _TIMES, _MARKERS}
    return stack.enter_context(
        Asker(cluster, sources, once={CONFIGS, LOGDIRS}, deadline_seconds=place.deadline_seconds)
    )


def looks_of(asker: Asker, every_seconds: float, groups: Wanted) -> Iterator[Look]:
    """A look after each poll, without end. Raises SourceError when the first poll reaches nobody, or no such group."""
    began = time.monotonic()
    first = True
    while True:
        started = time.monotonic()
        seen = asker.ask()
        if first and seen.unreachable:
            raise SourceError(f"cluster {seen.cluster}: {seen.unreachable}")
        yield Look(seen, asker.judged, time.monotonic() - began)
        names = {name for (name,) in seen.newest_columns("consumer_group", "group")}
        if first and groups.names and seen.complete and not any(groups(name) for name in names):
            return  # it would be a long wait for nobody
        first = False
        time.sleep(max(0.0, started + every_seconds - time.monotonic()))


def watch_for(looks: Iterator[Look], place: Place) -> Look:
    """The last look after the time asked for. What goes on is told on stderr."""
    seconds = place.seconds or 0.0
    progress = _progress(seconds, place.every_seconds)
    last = next(looks)
    while (last.watched_seconds or 0.0) < seconds:
        progress(last.watched_seconds or 0.0)
        following = next(looks, None)
        if following is None:
            break
        last = following
    progress(None)
    return last


def _progress(seconds: float, every: float) -> Callable[[float | None], None]:
    said = f"watching for {in_words(seconds)}, a poll every {in_words(every)}"
    if not sys.stderr.isatty():
        output.tell(f"{said} ...")
        return lambda _: None

    def show(passed: float | None) -> None:
        text = "" if passed is None else f"{said}: {in_words(max(seconds - passed, 0))} left"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show
