"""The report of `lagwatch status`: selects groups and gives table, JSON, notes and exit code. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from lagwatch.cli import output
from lagwatch.cli.status_table import group_lines, partition_lines
from lagwatch.snapshot.documents import status_document
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.verdicts import GroupVerdict, read_verdicts
from lagwatch.snapshot.view import ClusterView, failure_lines, offset_failures
from lagwatch.text import counted, duration_text, one_line
from lagwatch.verdict.lagwatch_rules import UNKNOWN_RHYTHM_MS
from lagwatch.verdict.status import WORST_FIRST, Status


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """The groups to show; an empty set of statuses means all."""

    groups: NamePatterns = field(default_factory=NamePatterns)
    topics: NamePatterns = field(default_factory=NamePatterns)
    statuses: frozenset[str] = frozenset()
    top: int | None = None

    @property
    def with_partitions(self) -> bool:
        """Whether to show single partitions."""
        return bool(self.groups.names or self.topics.names)


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The verdicts on groups, worst first."""

    views: Sequence[ClusterView]
    query: StatusQuery
    groups: Sequence[GroupVerdict]  # selected by the query
    known: Sequence[GroupVerdict]  # of any status

    @classmethod
    def of(cls, views: Sequence[ClusterView], query: StatusQuery) -> StatusReport:
        """The report for a query."""
        known = []
        for view in views:
            known += read_verdicts(view, query.groups, query.topics, with_partitions=query.with_partitions)
        known.sort(key=lambda group: group.urgency)
        shown = [group for group in known if not query.statuses or (group.status or "") in query.statuses]
        return cls(views, query, shown[: query.top], known)

    def lines(self, width: int | None, most: int | None = None) -> list[str]:
        """The text for the terminal: groups, and with `--group` or `--topic` their partitions."""
        groups = self.groups if most is None else self.groups[:most]
        lines = group_lines(groups, width, several_clusters=len(self.views) > 1)
        if self.query.with_partitions:
            for group in groups:
                lines += ["", *partition_lines(group, width)] if group.partitions else []
        return lines + output.more(len(self.groups) - len(groups), "group")

    def document(self) -> dict[str, Any]:
        """As JSON (docs/verdicts.md)."""
        missing = {"groups": self.missing_groups(), "topics": self.missing_topics()}
        return status_document(self.views, self.groups, missing, with_partitions=self.query.with_partitions)

    def headline(self) -> str:
        """Counts of statuses in one line; what is stale counts apart."""
        counts = Counter((group.status or "not evaluated", group.stale) for group in self.known)
        order = [
            (name, stale)
            for name in (*map(attrgetter("name"), WORST_FIRST), "not evaluated")
            for stale in (False, True)
        ]
        summary = ", ".join(f"{counts[key]} {key[0]}{' stale' if key[1] else ''}" for key in order if counts[key])
        where = ", ".join(view.cluster for view in self.views)
        when = output.clock_time(max(view.at_ms for view in self.views))
        return f"{where}  {when}  {counted(len(self.known), 'group')}{': ' if summary else ''}{summary}"

    def notes(self) -> list[str]:
        """What is stale, incomplete or missing in the report."""
        notes = []
        for view in self.views:
            notes += [self._named(view, note) for note in _notes(view)]
        is_complete = all(view.complete for view in self.views)
        perhaps = "" if is_complete else "; it may be among those that could not be queried"
        notes += [f"no group {one_line(name)} exists{perhaps}" for name in self.missing_groups()]
        return notes + [f"no group has commits for topic {one_line(name)}" for name in self.missing_topics()]

    def hints(self) -> list[str]:
        """How much data the verdicts are based on."""
        lines = [] if self.known or self.query.with_partitions else ["no consumer groups"]
        for view in self.views:
            if view.watched_seconds is not None and self.known:
                rows = [row for group in self.known for row in group.partitions if row.about["complete"] is not None]
                filled = round(100 * sum(row.about["complete"] for row in rows) / max(len(rows), 1))
                lines.append(f"observed for {duration_text(view.watched_seconds)}: windows are {filled}% full")
        if any(group.unsure for group in self.groups):
            longer = duration_text(UNKNOWN_RHYTHM_MS / 1000)
            lines.append(
                "OK? marks a group with lag that did not move while it was observed. "
                f"Without an agent, STOP or STALL takes at least {longer}: use --for 6m"
            )
        return lines

    def exit_code(self) -> int:
        """1 when a group is not OK or stale, or something could not be queried."""
        bad = any(group.stale or (group.status or Status.OK.name) != Status.OK.name for group in self.groups)
        return output.PROBLEM if bad or self.notes() else output.OK

    def missing_groups(self) -> list[str]:
        """Named groups that do not exist."""
        names = [name for view in self.views for (name,) in view.columns("consumer_group", "group")]
        return self.query.groups.not_among(names)

    def missing_topics(self) -> list[str]:
        """Named topics for which no selected group has commits."""
        return self.query.topics.not_among(row.topic for group in self.known for row in group.partitions)

    def _named(self, view: ClusterView, note: str) -> str:
        return f"cluster {view.cluster}: {note}" if len(self.views) > 1 else note


def _notes(view: ClusterView) -> list[str]:
    notes = [view.overdue] if view.overdue else []
    notes += failure_lines(offset_failures(view))
    if view.unreachable:
        notes.append(f"no data: {view.unreachable}")
    if not view.complete:
        notes.append("groups may be missing: some coordinators could not be queried")
    return notes
