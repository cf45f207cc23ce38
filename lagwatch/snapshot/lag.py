"""Lag by group and partition: reads, selects and sorts rows of a cluster view. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lagwatch.assignment_text import parse_assignment
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import KAFKA


class Sort(StrEnum):
    """The order of rows; the largest lag and the longest time without a move come first."""

    lag = "lag"
    group = "group"
    topic = "topic"
    unmoved = "unmoved"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A live member of a group."""

    member: str
    host: str | None
    client_id: str | None


@dataclass(frozen=True, slots=True)
class LagRow:
    """One partition of one group.

    `committed_offset` is None where a member has the partition but nothing was committed; topic and partition are None in
    the row of a member without partitions.
    """

    topic: str | None
    partition: int | None
    committed_offset: int | None
    log_end_offset: int | None
    lag: int | None
    seconds_since_moved: float | None
    stale: bool
    age_seconds: float
    owner: GroupMember | None


@dataclass(slots=True)
class GroupLag:
    """A group with its partitions, and its members without partitions."""

    group: str
    about: dict[str, Any] = field(default_factory=dict)
    rows: list[LagRow] = field(default_factory=list)

    @property
    def total_lag(self) -> int | None:
        """The sum of known lags; None when none is known."""
        lags = self.known_lags
        return sum(lags) if lags or not self.unknown_lags else None

    @property
    def max_lag(self) -> int | None:
        """The largest known lag; None when none is known."""
        lags = self.known_lags
        return max(lags) if lags else None if self.unknown_lags else 0

    @property
    def known_lags(self) -> list[int]:
        """The known lags."""
        return [row.lag for row in self.rows if row.lag is not None]

    @property
    def unknown_lags(self) -> int:
        """The number of partitions with a commit but unknown lag."""
        return sum(1 for row in self.rows if row.lag is None and row.committed_offset is not None)


ABOUT = ("state", "type", "protocol_type", "coordinator", "members", "empty_members", "rebalances", "stale")


def read_lag(view: ClusterView, groups: NamePatterns, topics: NamePatterns) -> list[GroupLag]:
    """The selected groups with their partitions of the selected topics, sorted by name."""
    found: dict[str, GroupLag] = {}
    for name, *about in view.columns("consumer_group", "group", *ABOUT):
        if groups(name):
            found[name] = GroupLag(name, dict(zip(ABOUT, about, strict=True)))
    ends = {
        (topic, partition): end
        for topic, partition, end in view.columns(
            "topic_partition", "topic", "partition", "log_end_offset", source=KAFKA
        )
        if end is not None and topics(topic)
    }
    owners, idle = _members(view)
    for row_group, row in _committed(view, ends, owners):
        if groups(row_group) and topics(row.topic or ""):
            found.setdefault(row_group, GroupLag(row_group)).rows.append(row)
    for name, group in found.items():
        have = {(row.topic, row.partition) for row in group.rows}
        group.rows += [
            _uncommitted(*key, ends.get(key), owner)
            for key, owner in owners.get(name, {}).items()
            if key not in have and topics(key[0])
        ]
        group.rows.sort(key=_position)
        if not topics.names:
            group.rows += [_uncommitted(None, None, None, member) for member in idle.get(name, [])]
    return [found[name] for name in sorted(found)]


_Owners = dict[tuple[str, int], GroupMember]


def _committed(
    view: ClusterView, ends: dict[tuple[str, int], int], owners: dict[str, _Owners]
) -> Iterator[tuple[str, LagRow]]:
    batch_age = view.age_seconds("consumer_lag", KAFKA) if view.from_journal else 0.0
    no_owners: _Owners = {}
    names = ("group", "topic", "partition", "committed_offset", "lag", "seconds_since_moved", "stale", "age_seconds")
    for group, topic, partition, committed, lag, unmoved, stale, age in view.columns("consumer_lag", *names):
        key = (topic, partition)
        yield (
            group,
            LagRow(
                topic,
                partition,
                committed,
                ends.get(key),
                lag,
                None if view.followed_seconds is None else round(unmoved or 0.0, 1),
                bool(stale) or view.overdue is not None,
                round((age or 0.0) + batch_age, 1),
                owners.get(group, no_owners).get(key),
            ),
        )


def _uncommitted(topic: str | None, partition: int | None, end: int | None, owner: GroupMember) -> LagRow:
    return LagRow(topic, partition, None, end, None, None, stale=False, age_seconds=0.0, owner=owner)


def _position(row: LagRow) -> tuple[bool, str, int]:
    return row.topic is None, row.topic or "", row.partition or 0


def _members(view: ClusterView) -> tuple[dict[str, _Owners], dict[str, list[GroupMember]]]:
    """For each group the member of each assigned partition, and the members without partitions."""
    owners: dict[str, _Owners] = defaultdict(dict)
    idle: dict[str, list[GroupMember]] = defaultdict(list)
    columns = ("group", "member", "host", "client_id", "assignment")
    for group, name, host, client_id, assignment in view.columns("group_member", *columns):
        member = GroupMember(name, host, client_id)
        assigned = [
            (topic, partition) for topic, partitions in parse_assignment(assignment or "") for partition in partitions
        ]
        owners[group].update(dict.fromkeys(assigned, member))
        if not assigned:
            idle[group].append(member)
    return owners, idle


Shown = tuple[GroupLag, LagRow]


def select_rows(groups: Sequence[GroupLag], sort: Sort, min_lag: int) -> list[Shown]:
    """The selected rows, sorted. A row with unknown lag stays: its lag may be above `min_lag`."""
    rows = [(group, row) for group in groups for row in group.rows if _is_behind(row, min_lag)]
    if sort is Sort.topic:
        rows.sort(key=lambda shown: (_position(shown[1]), shown[0].group))
    elif sort is Sort.lag:
        rows.sort(key=lambda shown: (shown[1].committed_offset is None, shown[1].lag is None, -(shown[1].lag or 0)))
    elif sort is Sort.unmoved:
        rows.sort(key=lambda shown: -(shown[1].seconds_since_moved or 0.0))
    return rows


def _is_behind(row: LagRow, min_lag: int) -> bool:
    if row.committed_offset is None:
        return min_lag == 0
    return row.lag is None or row.lag >= min_lag
