"""Keeps the consumer groups of a cluster with their state and members, and detects rebalances between polls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lagwatch.batch import Batch, Column, Masked, make_rows
from lagwatch.catalogue import CONSUMER_GROUP
from lagwatch.clock import Moment
from lagwatch.columns import strings_of
from lagwatch.kafka_names import REBALANCING
from lagwatch.pipeline.state.commits import Totals

_OWN_COLUMNS = {
    "group", "state", "type", "protocol_type", "coordinator", "members", "empty_members", "stale", "age_seconds",
}  # fmt: skip
_MISSED_POLLS_UNTIL_DELETED = 2  # a coordinator that just moved may list no groups for one poll


@dataclass(frozen=True, slots=True)
class _Group:
    """The last known state of one group. `membership` is a hash of its members and their assignments.

    `fetched` is the monotonic time at which its commits were last fetched.
    """

    state: str | None
    type: str | None
    protocol_type: str | None
    coordinator: int | None
    members: int | None
    empty_members: int | None
    membership: int | None
    fetched: float
    rebalances: int = 0
    missed_polls: int = 0
    # Other columns, passed through: the collector's, and after a restore also those that are computed again anyway.
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A group that rebalanced between two polls."""

    group: str
    before: str
    after: str


class GroupState:
    """Tracks the groups of one cluster."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._schema = CONSUMER_GROUP.schema

    def observe(
        self, groups: Batch, members: Batch, *, complete: bool, now: Moment
    ) -> tuple[list[Rebalanced], list[str]]:
        """Update with the groups of a poll; returns the rebalances and the deleted groups."""
        memberships = _memberships(members)
        listed: dict[str, _Group] = {}
        self._schema = groups.rows.schema
        rebalanced = []
        columns = [strings_of(groups.rows, name) for name in ("group", "state", "type", "protocol_type")]
        columns += [
            groups.rows.column(name).to_pylist() for name in ("coordinator", "members", "empty_members", "stale")
        ]
        others = [name for name in groups.rows.schema.names if name not in _OWN_COLUMNS and _has_values(groups, name)]
        more = groups.rows.select(others).to_pylist() if others else [{}] * len(groups)
        for other, group, state, kind, protocol_type, coordinator, count, empty, stale in zip(
            more, *columns, strict=True
        ):
            before = self._groups.get(group)
            fetched = before.fetched if stale and before else now.monotonic
            membership = None if count is None else hash(frozenset(memberships[group]))
            rebalances = before.rebalances if before else 0
            after = _Group(
                state, kind, protocol_type, coordinator, count, empty, membership, fetched, rebalances, more=other
            )  # fmt: skip
            if before and has_rebalanced(before, after):
                after = replace(after, rebalances=after.rebalances + 1)
                rebalanced.append(Rebalanced(group, _state_text(before), _state_text(after)))
            listed[group] = after
        missing = {group: known for group, known in self._groups.items() if group not in listed}
        if complete:
            missing = {group: replace(known, missed_polls=known.missed_polls + 1) for group, known in missing.items()}
        deleted = [group for group, known in missing.items() if known.missed_polls >= _MISSED_POLLS_UNTIL_DELETED]
        self._groups = listed | {group: known for group, known in missing.items() if group not in deleted}
        return rebalanced, deleted

    def stale_groups(self, now: Moment) -> Collection[str]:
        """Groups whose commits were not fetched in the poll of this moment."""
        return {name for name, group in self._groups.items() if group.fetched != now.monotonic}

    def batch(self, cluster: str, totals: Totals, now: Moment) -> Batch:
        """Every group with its sums."""
        at = {group: position for position, group in enumerate(totals.groups)}
        names = sorted(self._groups)
        groups = [self._groups[name] for name in names]
        rows = [at.get(name) for name in names]
        stale = [group.fetched != now.monotonic for group in groups]
        others = {name for group in groups for name in group.more}
        columns: dict[str, Column] = {
            **{name: [group.more.get(name) for group in groups] for name in others},
            "group": names,
            "state": [group.state for group in groups],
            "type": [group.type for group in groups],
            "protocol_type": [group.protocol_type for group in groups],
            "coordinator": [group.coordinator for group in groups],
            "members": [group.members for group in groups],
            "empty_members": [group.empty_members for group in groups],
            "rebalances": [group.rebalances for group in groups],
            "partitions": _picked(totals.partitions.tolist(), rows),
            "total_lag": _picked(totals.total_lag.tolist(), rows),
            "max_lag": _picked(totals.max_lag.tolist(), rows),
            "unknown_lag_partitions": _picked(totals.unknown.tolist(), rows),
            "stale_partitions": _picked(totals.stale.tolist(), rows),
            "lost_messages": _picked(totals.lost.tolist(), rows),
            **{name: _picked_known(column, rows) for name, column in totals.max_seconds.items()},
            "stale": stale,
            "age_seconds": [
                max(now.monotonic - group.fetched, 0) if old else None for group, old in zip(groups, stale, strict=True)
            ],
        }
        return Batch(CONSUMER_GROUP.name, cluster, now.wall_ms, make_rows(self._schema, columns))

    def restore(self, batch: Batch, now: Moment) -> None:
        """Restore the last known groups from the journal."""
        written = now.monotonic - max(0, now.wall_ms - batch.at_ms) / 1000
        self._schema = batch.rows.schema
        self._groups = {
            row["group"]: _Group(
                row["state"], row["type"], row["protocol_type"], row["coordinator"], row["members"],
                row["empty_members"], None, written - (row["age_seconds"] or 0), row["rebalances"] or 0,
                more={name: value for name, value in row.items() if name not in _OWN_COLUMNS and value is not None},
            )
            for row in batch.rows.to_pylist()
        }  # fmt: skip


def has_rebalanced(before: _Group, after: _Group) -> bool:
    """Whether a rebalance began between two polls: one is in progress, or the members or their assignments changed.

    A lower bound: two rebalances between two polls count as one, and one that changes nothing is not detected.
    """
    if after.state in REBALANCING:
        return before.state not in REBALANCING
    if before.state in REBALANCING:
        return False  # counted when it began
    both_known = before.membership is not None and after.membership is not None
    return both_known and before.membership != after.membership


def _has_values(batch: Batch, name: str) -> bool:
    return bool(batch.rows[name].null_count < len(batch))


def _memberships(members: Batch) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    columns = (strings_of(members.rows, name) for name in ("group", "member", "assignment"))
    for group, member, assignment in zip(*columns, strict=True):
        found[group].append((member, assignment))
    return found


def _state_text(group: _Group) -> str:
    members = (
        "members unknown" if group.members is None else f"{group.members} member{'' if group.members == 1 else 's'}"
    )
    return f"{group.state or 'state unknown'}, {members}"


def _picked(values: list[int], rows: Iterable[int | None]) -> list[int]:
    """The sum of each group; 0 for a group without commits."""
    return [0 if row is None else values[row] for row in rows]


def _picked_known(column: Masked, rows: Iterable[int | None]) -> list[float | None]:
    """The value of each group; None if it is unknown or the group has no commits."""
    values, known = column.values.tolist(), column.known.tolist()
    return [None if row is None or not known[row] else values[row] for row in rows]
