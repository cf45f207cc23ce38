"""`lagwatch status`: which groups are not OK, and why; from an agent's journal or from its own polls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Annotated

import typer

from lagwatch.cli import output
from lagwatch.cli.data_source import DataSource, open_poller, poll_for, poll_views, read_journal
from lagwatch.cli.options import (
    AgentConfig,
    Bootstrap,
    ClusterName,
    DeadlineText,
    JournalFile,
    Json,
    WatchFor,
    seconds_in,
)
from lagwatch.cli.status_report import StatusQuery, StatusReport
from lagwatch.cli.watch import print_report, repeat, watch_reports
from lagwatch.errors import SourceError
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView
from lagwatch.verdict.status import WORST_FIRST

EPILOG = "Example: lagwatch status --config lagwatch.yml --group 'billing*'"

WATCH_SECONDS = 120.0
_STATUSES = tuple(status.name for status in WORST_FIRST)


def status(
    bootstrap: Bootstrap = None,
    config: AgentConfig = None,
    cluster: ClusterName = None,
    journal: JournalFile = None,
    watch_for_: WatchFor = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="these groups, with their partitions; names or patterns"),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="partitions of these topics; names or patterns")
    ] = None,
    status_: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="only these statuses, such as STOP,WARN"),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, metavar="N", help="show at most N groups")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="repeat until Ctrl-C")] = False,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="how often to read or poll")] = "5s",
    deadline: DeadlineText = None,
    as_json: Json = False,
) -> None:
    """Show the status of consumer groups and why, worst first.

    Reads the journal of a running agent (--config, --journal), or polls a cluster for a while (--bootstrap, or --config
    with --for). A time lag is shown with its bounds, `>=` where only the lower one is known. Exit 0 when all groups are OK,
    1 when one is not OK or stale or something could not be queried, 2 when nothing could be queried.
    """
    source = DataSource.of(
        bootstrap, config, journal, cluster,
        None if watch_for_ is None else seconds_in(watch_for_, "--for"), seconds_in(interval, "--interval"),
        None if deadline is None else seconds_in(deadline, "--deadline"), default_seconds=WATCH_SECONDS,
    )  # fmt: skip
    query = StatusQuery(
        NamePatterns(tuple(group or ())), NamePatterns(tuple(topic or ())), _statuses(status_ or ()), top
    )
    with ExitStack() as stack:
        if watch:
            views_over_time = _watch_views(stack, source, query)
            watch_reports((StatusReport.of(views, query) for views in views_over_time), as_json=as_json)
        if source.polls:
            poller = open_poller(stack, source, query.groups)
            views = [poll_for(poll_views(poller, source.every_seconds, query.groups), source)]
        else:
            views = read_journal(source, query.groups, with_windows=query.with_partitions)
        check_reachable(views)
        report = StatusReport.of(views, query)
        print_report(report, as_json=as_json)
        for line in (report.headline(), *report.hints()):
            output.warn(line)
        raise typer.Exit(report.exit_code())


def check_reachable(views: Sequence[ClusterView]) -> None:
    """Raises SourceError when there is no data of any cluster."""
    reasons = [f"cluster {view.cluster}: {view.unreachable}" for view in views if view.unreachable]
    if len(reasons) == len(views):
        raise SourceError("; ".join(reasons))


def _statuses(texts: Sequence[str]) -> frozenset[str]:
    """`STOP,warn` as statuses; an unknown one is a usage error."""
    names = {name.strip().upper() for text in texts for name in text.split(",")}
    for name in sorted(names - set(_STATUSES)):
        raise typer.BadParameter(f'"{name}" is not a status (one of {", ".join(_STATUSES)})', param_hint="--status")
    return frozenset(names)


def _watch_views(stack: ExitStack, source: DataSource, query: StatusQuery) -> Iterator[list[ClusterView]]:
    """The views of --watch, without end."""
    if source.polls:
        poller = open_poller(stack, source, query.groups)
        yield from ([view] for view in poll_views(poller, source.every_seconds, NamePatterns()))
    else:
        yield from repeat(
            lambda: read_journal(source, query.groups, with_windows=query.with_partitions), source.every_seconds
        )
