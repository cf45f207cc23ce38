"""`lagwatch explain GROUP`: why each partition has its verdict, from an agent's journal or from its own polls."""

from __future__ import annotations

import difflib
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lagwatch.cli import output
from lagwatch.cli.data_source import DataSource, open_poller, poll_for, poll_views, read_journal
from lagwatch.cli.explain_plot import characters_for
from lagwatch.cli.explain_view import explained_lines
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
from lagwatch.cli.status_cells import status_cell, status_colour
from lagwatch.cli.status_command import WATCH_SECONDS, check_reachable
from lagwatch.cli.status_report import StatusQuery, StatusReport
from lagwatch.errors import LagwatchError
from lagwatch.pipeline.sources import reads_topic, run_field
from lagwatch.snapshot.documents import explain_document
from lagwatch.snapshot.explain import ExplainedPartition
from lagwatch.snapshot.lag import read_lag
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.verdicts import GroupVerdict, worst_partitions_first
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import COMMITS
from lagwatch.text import counted, one_line

EPILOG = "Example: lagwatch explain billing --config lagwatch.yml --topic orders --partition 3"


def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="the group, by its exact name")],
    bootstrap: Bootstrap = None,
    config: AgentConfig = None,
    cluster: ClusterName = None,
    journal: JournalFile = None,
    watch_for_: WatchFor = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="only these topics: names or patterns")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", metavar="N", help="only these partitions; may be repeated")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="show at most N partitions")] = 3,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="how often --for polls")] = "5s",
    deadline: DeadlineText = None,
    as_json: Json = False,
) -> None:
    """Explain the verdict on a group, rule by rule, worst partitions first.

    Reads the journal of a running agent (--config, --journal), or polls a cluster for a while (--bootstrap, or --config
    with --for). Without --config the agent's settings are unknown, and the rules are shown with the defaults. Exit as
    `lagwatch status`: 0 OK, 1 not OK, 2 nothing could be queried or no such group.
    """
    source = DataSource.of(
        bootstrap, config, journal, cluster,
        None if watch_for_ is None else seconds_in(watch_for_, "--for"), seconds_in(interval, "--interval"),
        None if deadline is None else seconds_in(deadline, "--deadline"), default_seconds=WATCH_SECONDS,
    )  # fmt: skip
    wanted = NamePatterns((group,))
    with ExitStack() as stack:
        if source.polls:
            poller = open_poller(stack, source, wanted)
            views = [poll_for(poll_views(poller, source.every_seconds, wanted), source)]
        else:
            views = read_journal(source, wanted, with_windows=True)
    check_reachable(views)
    found = _Found.of(group, views, source)
    report = StatusReport.of([found.view], StatusQuery(wanted))
    explained = found.explained(NamePatterns(tuple(topic or ())), set(partition or ()))
    if as_json:
        output.print_json(found.document(explained[:top]))
    else:
        output.print_lines(found.lines(explained, top))
    output.print_notes(report.notes(), as_json=as_json)
    for line in report.hints():
        output.warn(line)
    raise typer.Exit(report.exit_code())


@dataclass(frozen=True, slots=True)
class _Found:
    """The group, and the view of its cluster."""

    view: ClusterView
    group: GroupVerdict

    @classmethod
    def of(cls, name: str, views: list[ClusterView], source: DataSource) -> _Found:
        """Raises LagwatchError when no cluster has it, or several do."""
        found = [
            cls(view, verdict)
            for view in views
            for verdict in StatusReport.of([view], StatusQuery(NamePatterns((name,)))).known
            if verdict.group == name
        ]
        if not found:
            raise LagwatchError(no_such_group(name, _all_groups(views, source)))
        if len(found) > 1:
            clusters = ", ".join(one.view.cluster for one in found)
            raise LagwatchError(f"group {one_line(name)} is in several clusters ({clusters}): name one with --cluster")
        return found[0]

    def explained(self, topics: NamePatterns, partitions: set[int]) -> list[ExplainedPartition]:
        """Its partitions, worst first. Raises LagwatchError when none matches."""
        view, evaluated = self.view, self.view.evaluated
        owners = {
            (row.topic, row.partition): row.owner
            for one in read_lag(view, NamePatterns((self.group.group,)), NamePatterns())
            if one.group == self.group.group
            for row in one.rows
        }
        rows = [
            row
            for row in worst_partitions_first(self.group.partitions)
            if topics(row.topic) and (not partitions or row.partition in partitions)
        ]
        if not rows and self.group.partitions:
            group = one_line(self.group.group)
            raise LagwatchError(f"group {group} has no commits for the selected topics and partitions")
        if evaluated is None:
            return []
        return [
            ExplainedPartition.of(row, evaluated, row.row, owners.get((row.topic, row.partition)))
            for row in rows
            if row.row is not None
        ]

    def lines(self, explained: list[ExplainedPartition], top: int) -> list[str]:
        """The text for the terminal."""
        group, width = self.group, output.terminal_width()
        status = status_cell(group.status, stale=group.stale, age_seconds=group.age_seconds, unsure=group.unsure)
        title = f"{one_line(group.group)} on {self.view.cluster}: {status}: {group.why}"
        colour = status_colour(group.status, stale=group.stale)
        lines = [output.paint(title, colour) if colour else title, self._about(explained)]
        fallback = self._commits_fallback()
        lines += [fallback] if fallback else []
        for one in explained[:top]:
            lines += ["", *explained_lines(one, characters_for(sys.stdout.encoding), width)]
        return lines + output.more(len(explained) - top, "partition") * bool(explained)

    def document(self, explained: list[ExplainedPartition]) -> dict[str, Any]:
        """As JSON."""
        return explain_document(self.view, self.group, explained, self._commits_from(), self._commits_fallback())

    def _about(self, explained: list[ExplainedPartition]) -> str:
        about = self.group.about
        members = "members unknown" if about["members"] is None else counted(about["members"], "member")
        by = "Burrow's rules" if explained and explained[0].inputs.is_burrow else "lagwatch's rules"
        commits = {"polls": "polls", "topic": "the offsets topic"}[self._commits_from()]
        when = output.clock_time(self.view.at_ms)
        return (
            f"{about['state'] or 'state unknown'}, {members}; evaluated by {by}, commits from {commits}; as of {when}"
        )

    def _commits_from(self) -> str:
        newest = self.view.snapshot.newest("source", COMMITS)
        return "topic" if newest is not None and reads_topic(newest) else "polls"

    def _commits_fallback(self) -> str | None:
        newest = self.view.snapshot.newest("source", COMMITS)
        return None if newest is None else run_field(newest, "fallback")


def no_such_group(name: str, names: list[str]) -> str:
    """The error for a missing group, with similar names."""
    near = (
        difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        or [one for one in names if name.lower() in one.lower()][:3]
    )
    hint = f": did you mean {' or '.join(one_line(one) for one in near)}?" if near else ""
    return f"no group {one_line(name)} exists{hint or f' ({len(names)} others do)'}"


def _all_groups(views: list[ClusterView], source: DataSource) -> list[str]:
    """Every group of the clusters: a poll before this one was limited to one group."""
    if source.polls:
        with ExitStack() as stack:
            views = [open_poller(stack, source, NamePatterns()).poll()]
    return [name for view in views for (name,) in view.columns("consumer_group", "group")]
