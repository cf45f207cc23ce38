"""Formats how evenly the brokers share leaders, replicas, disk and traffic. Pure."""

from __future__ import annotations

from typing import Any

from lagwatch.cli import output
from lagwatch.cli.output import TableColumn
from lagwatch.snapshot.health import Health
from lagwatch.source_names import LOGDIRS
from lagwatch.text import one_line, size_text
from lagwatch.verdict.sizing_limits import LARGEST_PARTITION_BYTES, MOST_PARTITIONS

_COLUMNS = (
    TableColumn("BROKER", right=True),
    TableColumn("LEADERS", right=True),
    TableColumn("REPLICAS", right=True),
    TableColumn("ON-DISK", right=True),
    TableColumn("BYTES-IN/S", right=True),
    TableColumn("BYTES-OUT/S", right=True),
    TableColumn("NOT-PREFERRED", right=True),
)
_RATIOS = ("leaders_ratio", "partitions_ratio", "size_ratio", "bytes_in_ratio", "bytes_out_ratio")
_MOST_NAMED = 5


def balance_lines(health: Health, width: int | None) -> list[str]:
    """Each broker's share as a multiple of the mean, then brokers and partitions that are too large.

    A single broker has no shares.
    """
    rows = [row for row in health.brokers if any(row.get(name) is not None for name in _RATIOS)]
    lines = []
    if len(rows) > 1:
        head, *table = output.table_lines(_COLUMNS, [_cells(row) for row in rows], width)
        lines = ["", "balance, as multiples of the brokers' mean:", output.heading(head), *table]
    return lines + _overfull(health) + _oversized(health)


def _cells(row: dict[str, Any]) -> list[str]:
    """`1.31x (12.0 MiB)` where the amount is useful too."""
    return [
        str(row["broker"]),
        _times(row, "leaders_ratio"),
        _times(row, "partitions_ratio"),
        _times(row, "size_ratio"),
        _times(row, "bytes_in_ratio", "bytes_in_rate"),
        _times(row, "bytes_out_ratio", "bytes_out_rate"),
        "-" if row.get("preferred_leader_imbalance") is None else f"{row['preferred_leader_imbalance']:.0%}",
    ]


def _times(row: dict[str, Any], ratio: str, amount: str | None = None) -> str:
    size = size_text(round(row[amount])) if amount and row.get(amount) is not None else ""
    if row.get(ratio) is None:
        return size or "-"  # no traffic, no ratio
    return f"{row[ratio]:.2f}x ({size})" if size else f"{row[ratio]:.2f}x"


def _overfull(health: Health) -> list[str]:
    return [
        output.paint(
            f"broker {row['broker']} holds {row['partitions']:,} partitions: above {MOST_PARTITIONS:,}", "yellow"
        )
        for row in health.brokers
        if (row["partitions"] or 0) > MOST_PARTITIONS
    ]


def _oversized(health: Health) -> list[str]:
    sizes = {
        (topic, partition): size
        for topic, partition, size in health.view.columns(
            "topic_partition", "topic", "partition", "size_bytes", source=LOGDIRS
        )
        if size is not None and size > LARGEST_PARTITION_BYTES
    }
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    named = [
        output.paint(f"partition {partition} of {one_line(topic)} has {size_text(size)}: above 50 GB", "yellow")
        for (topic, partition), size in largest[:_MOST_NAMED]
    ]
    return named + output.more(len(largest) - _MOST_NAMED, "partition") * bool(named)
