"""Formats brokers and partitions as table cells. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagwatch.cli.output import TableColumn
from lagwatch.text import size_text

BROKER_COLUMNS = (
    TableColumn("BROKER", right=True),
    TableColumn("HOST", shrinks=True),
    TableColumn("RACK"),
    TableColumn("STATE"),
    TableColumn("LEADERS", right=True),
    TableColumn("REPLICAS", right=True),
    TableColumn("NOT-IN-SYNC", right=True),
    TableColumn("SIZE", right=True),
    TableColumn("DISK-FREE", right=True),
    TableColumn("CONTROLLER"),
)
PARTITION_COLUMNS = (
    TableColumn("TOPIC", shrinks=True),
    TableColumn("PARTITION", right=True),
    TableColumn("LEADER", right=True),
    TableColumn("REPLICAS", right=True),
    TableColumn("ISR", right=True),
    TableColumn("MIN-ISR", right=True),
    TableColumn("PROBLEM"),
)


def broker_cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The brokers as cells; unknown values are `-`."""
    return [
        [
            str(row["broker"]),
            row["host"] or "-",
            row["rack"] or "-",
            _state(row),
            *(_number(row[name]) for name in ("leaders", "partitions", "missing_from_isr")),
            *("-" if row[name] is None else size_text(row[name]) for name in ("size_bytes", "disk_free_bytes")),
            {True: "leader", False: "voter", None: "-"}[row["controller"]],
        ]
        for row in rows
    ]


def is_troubled(row: dict[str, Any]) -> bool:
    """Whether a broker needs attention."""
    return row["registered"] is False or row["answers"] is False or bool(row["missing_from_isr"])


def partition_cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The partitions as cells."""
    words = (("offline", "offline"), ("under_min_isr", "below min ISR"), ("under_replicated", "under-replicated"))
    return [
        [
            row["topic"],
            *(_number(row[name]) for name in ("partition", "leader", "replicas", "in_sync_replicas", "min_isr")),
            ", ".join(word for name, word in words if row[name]),
        ]
        for row in rows
    ]


def _state(row: dict[str, Any]) -> str:
    if row["registered"] is None:
        return "controller"  # a node of the quorum that is not a broker
    if not row["registered"]:
        return "not registered"
    return "no answer" if row["answers"] is False else "up"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
