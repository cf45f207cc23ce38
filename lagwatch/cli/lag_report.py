"""The report of `lagwatch lag`: selects rows and gives table, JSON, notes and exit code. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lagwatch.cli import output
from lagwatch.cli.lag_table import lag_table
from lagwatch.kafka_names import SHARE_TYPE
from lagwatch.snapshot.documents import lag_document
from lagwatch.snapshot.lag import GroupLag, Shown, Sort, read_lag, select_rows
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView, FailedTarget, failure_lines
from lagwatch.source_names import KAFKA
from lagwatch.text import counted, one_line


@dataclass(frozen=True, slots=True)
class LagQuery:
    """The rows to show."""

    groups: NamePatterns = field(default_factory=NamePatterns)
    topics: NamePatterns = field(default_factory=NamePatterns)
    sort: Sort = Sort.group
    min_lag: int = 0
    top: int | None = None


@dataclass(frozen=True, slots=True)
class LagReport:
    """The lags of the selected groups and partitions."""

    view: ClusterView
    query: LagQuery
    groups: Sequence[GroupLag]
    rows: Sequence[Shown]

    @classmethod
    def of(cls, view: ClusterView, query: LagQuery) -> LagReport:
        """The report for a query."""
        groups = read_lag(view, query.groups, query.topics)
        return cls(view, query, groups, select_rows(groups, query.sort, query.min_lag))

    def lines(self, width: int | None, most: int | None = None) -> list[str]:
        """The table for the terminal, of at most `most` rows; empty when there are no rows."""
        limit = min((n for n in (self.query.top, most) if n is not None), default=len(self.rows))
        columns, cells = lag_table(self.rows[:limit], self.view)
        if not cells:
            return []
        head, *lines = output.table_lines(columns, cells, width)
        is_stale = [row.stale or (row.lag is None and row.committed_offset is not None) for _, row in self.rows[:limit]]
        painted = [output.paint(line, "yellow") if stale else line for line, stale in zip(lines, is_stale, strict=True)]
        return [output.heading(head), *painted, *output.more(len(self.rows) - limit, "row")]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        missing = {"groups": self._missing_groups(), "topics": self._missing_topics()}
        return lag_document(self.view, self._groups_shown(), self.rows[: self.query.top], missing)

    def notes(self) -> list[str]:
        """What is stale, incomplete or missing in the report."""
        notes = [self.view.overdue] if self.view.overdue else []
        notes += failure_lines(self._failures())
        if not self.view.complete:  # only its coordinator can list a group
            notes.append("groups may be missing: some coordinators could not be queried")
        perhaps = "" if self.view.complete else "; it may be among those that could not be queried"
        notes += [f"no group {one_line(name)} exists{perhaps}" for name in self._missing_groups()]
        return notes + [f"no topic {one_line(name)} exists" for name in self._missing_topics()]

    def hints(self) -> list[str]:
        """Why a group has no rows, where that is not a problem."""
        if not self.groups and not self.query.groups.names:
            return [f"cluster {self.view.cluster}: no consumer groups"]
        why = f" on {', '.join(self.query.topics.names)}" if self.query.topics.names else ""
        named = [group for group in self.groups if not group.rows and group.group in self.query.groups.names]
        return [
            f"group {one_line(group.group)} ({group.about.get('state') or 'state unknown'}): "
            + (
                "a share group has no committed offsets"
                if group.about.get("type") == SHARE_TYPE
                else f"no commits{why}"
            )
            for group in named
        ]

    def exit_code(self) -> int:
        """1 when there are notes."""
        return output.PROBLEM if self.notes() else output.OK

    def headline(self) -> str:
        """Totals in one line, for --watch."""
        lag = sum(group.total_lag or 0 for group in self.groups)
        unknown = sum(group.unknown_lags for group in self.groups)
        partitions = sum(len(group.rows) for group in self.groups)
        return (
            f"{self.view.cluster}  {output.clock_time(self.view.now_ms)}  "
            f"{counted(len(self._groups_shown()), 'group')}, {counted(partitions, 'partition')}, "
            f"lag {lag:,}" + (f" and {unknown:,} unknown" if unknown else "")
        )

    def _groups_shown(self) -> list[GroupLag]:
        """The selected groups; with topics, those that read one of them."""
        return [group for group in self.groups if group.rows or not self.query.topics.names]

    def _failures(self) -> list[FailedTarget]:
        return [failed for failed in self.view.failures if failed.source == KAFKA]

    def _missing_groups(self) -> list[str]:
        return self.query.groups.not_among(group.group for group in self.groups)

    def _missing_topics(self) -> list[str]:
        topics = {topic for (topic,) in self.view.columns("topic_partition", "topic")}
        return self.query.topics.not_among(topics)
