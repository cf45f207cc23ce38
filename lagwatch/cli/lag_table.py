"""Formats lag as a table in the style of `kafka-consumer-groups`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lagwatch.cli.output import TableColumn
from lagwatch.cli.status_cells import NOTHING, UNKNOWN
from lagwatch.snapshot.lag import GroupLag, LagRow, Shown
from lagwatch.snapshot.view import ClusterView
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
    TableColumn("UNMOVED", right=True),
)
_AGE = TableColumn("AGE", right=True)


def lag_table(shown: Sequence[Shown], view: ClusterView) -> tuple[list[TableColumn], list[list[str]]]:
    """Columns and cells, with AGE when some values are not current."""
    with_age = view.from_journal or any(row.stale and row.lag is not None for _, row in shown)
    rows = [_cells(group, row, view.followed_seconds) + ([_age(row)] if with_age else []) for group, row in shown]
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
        _unmoved(row, followed),
    ]


def _unmoved(row: LagRow, followed: float | None) -> str:
    """`>30s` when it did not move under observation: it may have stopped much earlier."""
    if row.seconds_since_moved is None or not followed:
        return NOTHING
    return (">" if row.seconds_since_moved >= followed - 0.1 else "") + duration_text(row.seconds_since_moved)


def _age(row: LagRow) -> str:
    if row.committed_offset is None:
        return NOTHING
    if row.stale and row.lag is None:
        return UNKNOWN
    return f"stale {duration_text(row.age_seconds)}" if row.stale else duration_text(row.age_seconds)
