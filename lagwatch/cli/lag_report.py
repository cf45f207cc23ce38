"""The answer to `lagwatch lag`: what was seen and what was asked for enter; table, JSON, notes and exit code leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lagwatch.cli import output
from lagwatch.cli.lag_table import lag_table
from lagwatch.kafka_names import KAFKA
from lagwatch.snapshot.documents import failure_documents, lag_documents
from lagwatch.snapshot.lag import GroupLag, Shown, Sort, choose_rows, read_groups
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView, FailedTarget, failure_lines
from lagwatch.text import counted, iso_time, one_line


@dataclass(frozen=True, slots=True)
class LagQuery:
    """What a person wants to see."""

    groups: NamePatterns = field(default_factory=NamePatterns)
    topics: NamePatterns = field(default_factory=NamePatterns)
    sort: Sort = Sort.group
    min_lag: int = 0
    top: int | None = None


@dataclass(frozen=True, slots=True)
class LagReport:
    """What was seen, as rows, notes and an exit code."""

    view: ClusterView
    question: LagQuery
    groups: Sequence[GroupLag]
    rows: Sequence[Shown]

    @classmethod
    def of(cls, view: ClusterView, question: LagQuery) -> LagReport:
        """The answer to a question."""
        groups = read_groups(view, question.groups, question.topics)
        return cls(view, question, groups, choose_rows(groups, question.sort, question.min_lag))

    def table(self, width: int | None, most: int | None = None) -> list[str]:
        """The table as lines, of at most `most` rows; nothing when there are no rows."""
        limit = min((n for n in (self.question.top, most) if n is not None), default=len(self.rows))
        columns, cells = lag_table(self.rows[:limit], self.view)
        if not cells:
            return []
        head, *lines = output.table_lines(columns, cells, width)
        old = [row.stale or (row.lag is None and row.committed_offset is not None) for _, row in self.rows[:limit]]
        painted = [output.paint(line, "yellow") if is_old else line for line, is_old in zip(lines, old, strict=True)]
        return [output.heading(head), *painted, *output.more(len(self.rows) - limit, "row")]

    def document(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {
            "cluster": self.view.cluster,
            "at": iso_time(self.view.at_ms),
            "groups": lag_documents(self._groups_to_tell(), self.rows[: self.question.top]),
            "failures": failure_documents(self._failures()),
            "missing": {"groups": self._missing_groups(), "topics": self._missing_topics()},
            "complete": self.view.complete,
            "overdue": self.view.overdue,
        }

    def notes(self) -> list[str]:
        """What is wrong with it: old, incomplete, or not there."""
        notes = [self.view.overdue] if self.view.overdue else []
        notes += failure_lines(self._failures())
        if not self.view.complete:  # nobody else can list the groups of a coordinator, so they have no rows at all
            notes.append("groups may be missing here: those whose coordinator could not be asked")
        perhaps = "" if self.view.complete else "; it may be among those that could not be asked"
        notes += [f"no group {one_line(name)} exists{perhaps}" for name in self._missing_groups()]
        return notes + [f"no topic {one_line(name)} exists" for name in self._missing_topics()]

    def talk(self) -> list[str]:
        """What is not wrong, but would make a person wonder why a group has no rows."""
        if not self.groups and not self.question.groups.names:
            return [f"cluster {self.view.cluster}: no consumer groups"]
        why = f" on {', '.join(self.question.topics.names)}" if self.question.topics.names else ""
        named = [group for group in self.groups if not group.rows and group.group in self.question.groups.names]
        return [
            f"group {one_line(group.group)} ({group.about.get('state') or 'state unknown'}): "
            + ("a share group has no committed offsets" if group.about.get("type") == "share" else f"no commits{why}")
            for group in named
        ]

    def exit_code(self) -> int:
        """1 when a person should look at the notes."""
        return output.PROBLEM if self.notes() else output.OK

    def headline(self) -> str:
        """The whole of it in one line, for --watch."""
        lag = sum(group.total_lag or 0 for group in self.groups)
        unknown = sum(group.unknown_lags for group in self.groups)
        partitions = sum(len(group.rows) for group in self.groups)
        return (
            f"{self.view.cluster}  {output.clock_time(self.view.now_ms)}  "
            f"{counted(len(self._groups_to_tell()), 'group')}, {counted(partitions, 'partition')}, "
            f"lag {lag:,}" + (f" and {unknown:,} unknown" if unknown else "")
        )

    def _groups_to_tell(self) -> list[GroupLag]:
        """When topics were asked for, only the groups that read them."""
        return [group for group in self.groups if group.rows or not self.question.topics.names]

    def _failures(self) -> list[FailedTarget]:
        return [failed for failed in self.view.failures if failed.source == KAFKA]

    def _missing_groups(self) -> list[str]:
        return self.question.groups.not_among(group.group for group in self.groups)

    def _missing_topics(self) -> list[str]:
        topics = {topic for (topic,) in self.view.columns("topic_partition", "topic")}
        return self.question.topics.not_among(topics)
