"""Lag as kafka-consumer-groups prints it, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagwatch.cli.lag_rows import ABOUT, GroupLag, GroupMember, LagRow, Shown
from lagwatch.cli.output import TableColumn
from lagwatch.cli.seen import Seen
from lagwatch.text import duration_text

_COLUMNS = (
    TableColumn("GROUP", shrinks=True),
    TableColumn("TOPIC", shrinks=True),
    TableColumn("PARTITION", right=True),
    TableColumn("CURRENT-OFFSET", right=True),
    TableColumn("LOG-END-OFFSET", right=True),
    TableColumn("LAG", right=True),
    TableColumn("CONSUMER-ID", shrinks=True),
    TableColumn("HOST"),
    TableColumn("CLIENT-ID", shrinks=True),
    TableColumn("STILL", right=True),
)
_AGE = TableColumn("AGE", right=True)
NOTHING, UNKNOWN = "-", "?"


def lag_table(shown: Sequence[Shown], seen: Seen) -> tuple[list[TableColumn], list[list[str]]]:
    """Columns and cells. AGE is there when some values are not of this moment."""
    with_age = seen.from_journal or any(row.stale and row.lag is not None for _, row in shown)
    rows = [_cells(group, row, seen.followed_seconds) + ([_age(row)] if with_age else []) for group, row in shown]
    return [*_COLUMNS, *([_AGE] if with_age else [])], rows


def _cells(group: GroupLag, row: LagRow, followed: float | None) -> list[str]:
    never = row.committed_offset is None
    return [
        group.group,
        NOTHING if row.topic is None else row.topic,
        NOTHING if row.partition is None else str(row.partition),
        NOTHING if never else str(row.committed_offset),
        NOTHING if row.topic is None else UNKNOWN if row.log_end_offset is None else str(row.log_end_offset),
        NOTHING if never else UNKNOWN if row.lag is None else str(row.lag),
        row.owner.member if row.owner else NOTHING,
        (row.owner.host if row.owner else None) or NOTHING,
        (row.owner.client_id if row.owner else None) or NOTHING,
        _still(row, followed),
    ]


def _still(row: LagRow, followed: float | None) -> str:
    """`>30s` when it has not moved since we began to look: it may have stood still for much longer."""
    if row.seconds_since_moved is None or not followed:
        return NOTHING
    return (">" if row.seconds_since_moved >= followed - 0.1 else "") + duration_text(row.seconds_since_moved)


def _age(row: LagRow) -> str:
    if row.committed_offset is None:
        return NOTHING
    if row.stale and row.lag is None:
        return UNKNOWN
    return f"stale {duration_text(row.age_seconds)}" if row.stale else duration_text(row.age_seconds)


def lag_json(groups: Sequence[GroupLag], shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """The groups with their chosen rows, in the order of the rows; then the groups that have none."""
    chosen: dict[str, list[LagRow]] = {}
    for group, row in shown:
        chosen.setdefault(group.group, []).append(row)
    by_name = {group.group: group for group in groups}
    order = [*chosen, *(name for name, group in by_name.items() if not group.rows)]
    return [_group_json(by_name[name], chosen.get(name, [])) for name in order]


def _group_json(group: GroupLag, rows: Sequence[LagRow]) -> dict[str, Any]:
    return {
        "group": group.group,
        **{name: group.about.get(name) for name in ABOUT},
        "total_lag": group.total_lag,
        "max_lag": group.max_lag,
        "unknown_lag_partitions": group.unknown_lags,
        "stale_partitions": sum(1 for row in group.rows if row.stale),
        "partitions": [_row_json(row) for row in rows if row.topic is not None],
        "idle_members": [_owner_json(row.owner) for row in rows if row.topic is None],
    }


def _row_json(row: LagRow) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "committed_offset": row.committed_offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "seconds_since_moved": row.seconds_since_moved,
        "stale": row.stale,
        "age_seconds": row.age_seconds,
        **_owner_json(row.owner),
    }


def _owner_json(owner: GroupMember | None) -> dict[str, Any]:
    return {
        "member": owner.member if owner else None,
        "host": owner.host if owner else None,
        "client_id": owner.client_id if owner else None,
    }
