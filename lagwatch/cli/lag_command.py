"""`lagwatch lag`: how far consumer groups are behind, from Kafka or from an agent's journal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from lagwatch.cli import output
from lagwatch.cli.lag_report import LagQuery, LagReport
from lagwatch.cli.options import (
    Bootstrap,
    ClusterName,
    Config,
    DeadlineText,
    JournalFile,
    Json,
    exactly_one,
    seconds_in,
)
from lagwatch.cli.watch import print_report, repeat, watch_reports
from lagwatch.errors import SourceError
from lagwatch.snapshot.from_journal import view_journal
from lagwatch.snapshot.lag import Sort
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import KAFKA

EPILOG = "Example: lagwatch lag --bootstrap kafka1:9092 --group 'billing*' --sort lag --top 20"

_TABLES = {"consumer_lag", "consumer_group", "topic_partition", "group_member"}


def lag(
    bootstrap: Bootstrap = None,
    config: Config = None,
    cluster: ClusterName = None,
    journal: JournalFile = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="groups: names or patterns; may be repeated")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="topics: names or patterns; may be repeated")
    ] = None,
    sort: Annotated[Sort, typer.Option("--sort", help="sort rows by")] = Sort.group,
    top: Annotated[int | None, typer.Option("--top", min=1, metavar="N", help="show at most N rows")] = None,
    min_lag: Annotated[
        int, typer.Option("--min-lag", min=0, metavar="N", help="only rows with a lag of at least N, or an unknown one")
    ] = 0,
    watch: Annotated[
        bool, typer.Option("--watch", help="repeat until Ctrl-C; UNMOVED is how long an offset has not moved")
    ] = False,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="how often --watch queries")] = "5s",
    deadline: DeadlineText = None,
    as_json: Json = False,
) -> None:
    """Show how far consumer groups are behind.

    An unknown lag is ?, a partition without a commit has -. Exit 1 when something could not be queried or a group does
    not exist, 2 when nothing could be queried.
    """
    exactly_one(bootstrap=bootstrap, config=config, journal=journal)
    every = seconds_in(interval, "--interval")
    deadline_seconds = None if deadline is None else seconds_in(deadline, "--deadline")
    query = LagQuery(NamePatterns(tuple(group or ())), NamePatterns(tuple(topic or ())), sort, min_lag, top)
    with ExitStack() as stack:
        if journal is not None:
            fetch = _journal_fetch(journal, cluster)
        else:
            fetch = _live_fetch(stack, bootstrap, config, cluster, query, deadline_seconds)
        if watch:  # a cluster that cannot be queried is shown as such and queried again
            watch_reports((LagReport.of(view, query) for view in repeat(fetch, every)), as_json=as_json)
        view = fetch()
        if view.unreachable:
            raise SourceError(f"cluster {view.cluster}: {view.unreachable}")
        report = LagReport.of(view, query)
        print_report(report, as_json=as_json)
        for hint in report.hints():
            output.warn(hint)
        raise typer.Exit(report.exit_code())


_Fetch = Callable[[], ClusterView]


def _journal_fetch(journal: Path, cluster: str | None) -> _Fetch:
    return lambda: view_journal(journal, cluster, _TABLES)


def _live_fetch(
    stack: ExitStack, bootstrap: str | None, config: Path | None, name: str | None, query: LagQuery,
    deadline_seconds: float | None,
) -> _Fetch:  # fmt: skip
    from lagwatch.cli.live_source import LivePoller, choose_cluster, select_names  # noqa: PLC0415 -- kafka is slow to import

    cluster = select_names(choose_cluster(bootstrap, config, name), query.groups, query.topics)
    return stack.enter_context(LivePoller(cluster, {KAFKA}, deadline_seconds=deadline_seconds)).poll
