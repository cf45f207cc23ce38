"""Formats verdicts as tables. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from lagwatch.cli import output
from lagwatch.cli.output import TableColumn
from lagwatch.cli.status_cells import (
    NOTHING,
    catch_up_cell,
    lag_cell,
    retention_cell,
    status_cell,
    status_colour,
    time_lag_cell,
    trend_cell,
)
from lagwatch.snapshot.verdicts import GroupVerdict, PartitionVerdict, worst_partitions_first
from lagwatch.text import one_line

_FIGURES = (
    TableColumn("LAG", right=True),
    TableColumn("TIME-LAG"),
    TableColumn("TREND", right=True),
    TableColumn("CATCH-UP"),
)
_WHY_INDENT = "    "


def group_lines(groups: Sequence[GroupVerdict], width: int | None, *, several_clusters: bool) -> list[str]:
    """A line for each group. Where the terminal is too narrow, the reason why a group is not OK follows below its line."""
    columns = [TableColumn("GROUP", shrinks=True), TableColumn("STATUS"), *_FIGURES, TableColumn("RETENTION")]
    cells = [_group_cells(group) for group in groups]
    if several_clusters:
        columns.insert(0, TableColumn("CLUSTER", shrinks=True))
        cells = [[group.cluster, *row] for group, row in zip(groups, cells, strict=True)]
    whys = [group.why for group in groups]
    colours = [status_colour(group.status, stale=group.stale) for group in groups]
    return _lines(columns, cells, whys, colours, width)


def partition_lines(group: GroupVerdict, width: int | None) -> list[str]:
    """A line for each partition of a group, worst first."""
    rows = worst_partitions_first(group.partitions)
    columns = [
        TableColumn("TOPIC", shrinks=True),
        TableColumn("PARTITION", right=True),
        TableColumn("STATUS"),
        *_FIGURES,
    ]
    cells = [_partition_cells(row) for row in rows]
    whys = [row.why or NOTHING for row in rows]
    lines = _lines(
        [*columns, TableColumn("RETENTION")], cells, whys, [status_colour(row.status) for row in rows], width
    )
    return [output.paint(f"{one_line(group.group)}:", "bright_white", bold=True), *lines]


def _lines(
    columns: Sequence[TableColumn], cells: Sequence[list[str]], whys: Sequence[str], colours: Sequence[str | None],
    width: int | None,
) -> list[str]:  # fmt: skip
    if not cells:
        return []
    if all(row[-1] == NOTHING for row in cells):  # usually nothing is about to be deleted
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    full = output.table_lines(
        [*columns, TableColumn("WHY")], [[*row, why] for row, why in zip(cells, whys, strict=True)]
    )
    below = width is not None and max(len(line) for line in full) > width
    head, *lines = output.table_lines(columns, cells, width) if below else full
    shown = [output.heading(head)]
    for line, why, colour in zip(lines, whys, colours, strict=True):
        shown.append(output.paint(line, colour) if colour else line)
        if below and colour:
            shown += textwrap.wrap(one_line(why), width or 80, initial_indent=_WHY_INDENT,
                                   subsequent_indent=_WHY_INDENT)  # fmt: skip
    return shown


def _group_cells(group: GroupVerdict) -> list[str]:
    about = group.about
    is_known = about["consume_rate"] is not None and not group.unsure
    return [
        group.group,
        status_cell(group.status, stale=group.stale, age_seconds=group.age_seconds, unsure=group.unsure),
        NOTHING if not group.status else lag_cell(group.lag, about["unknown_lag_partitions"] or 0),
        NOTHING if not group.status else time_lag_cell(about, "max_lag_seconds"),
        trend_cell(about["consume_rate"], about["produce_rate"]),
        catch_up_cell(group.lag, about["catch_up_seconds"], is_known=is_known),
        retention_cell(about["loss_seconds"], about["lost_messages"]),
    ]


def _partition_cells(row: PartitionVerdict) -> list[str]:
    about = row.about
    return [
        row.topic,
        str(row.partition),
        status_cell(row.status, stale=bool(about["stale"]), age_seconds=about["age_seconds"] or 0.0),
        lag_cell(about["lag"]),
        time_lag_cell(about, "lag_seconds"),
        trend_cell(row.consume_rate, row.produce_rate),
        catch_up_cell(about["lag"], row.catch_up_seconds, is_known=row.row is not None),
        retention_cell(row.loss_seconds, about["lost_messages"]),
    ]
