"""Builds the batches of one JMX poll from the fields of all nodes, with one row for the cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collectors.jmx_beans.values import Key, Row
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import CLUSTER, Catalogue, Kind, Table

_NODE: Key = ("broker", ())
_FOLLOWER = "follower"
_IS_BROKER = "broker_state"  # only brokers have it
_BYTES_IN = "bytes_in_rate"
_TRAFFIC = (
    _BYTES_IN, "bytes_out_rate", "messages_in_rate", "total_produce_rate", "total_fetch_rate",
    "failed_produce_rate", "failed_fetch_rate", "at_min_isr_partitions",
)  # fmt: skip


def jmx_batches(
    cluster: str, now_ms: int, nodes: Mapping[int, Mapping[Key, Row]], tables: Catalogue, *, complete: bool
) -> list[Batch]:
    """A batch for each table with rows. Tables without a `broker` tag hold sums over the nodes.

    `complete`: every configured or discovered node responded. Otherwise traffic is not summed, since a partial sum would
    look like a drop. Nor is it summed in the first poll after a node's start, which has no rates yet.
    """
    of_nodes = {node: its_rows.get(_NODE, {}) for node, its_rows in nodes.items()}
    summed = complete and all(_BYTES_IN in row for row in of_nodes.values() if _IS_BROKER in row)
    rows: dict[str, dict[tuple[tuple[str, Any], ...], Row]] = {}
    for node, its_rows in sorted(nodes.items()):
        for (name, labels), fields in its_rows.items():
            tags = _tags(tables[name], node, labels)
            if tags is None:
                continue
            row = rows.setdefault(name, {}).setdefault(tags, {})
            if any(tag == "broker" for tag, _ in tags):
                row |= fields
            elif summed:
                row |= {field: value + row.get(field, 0) for field, value in fields.items() if _is_number(value)}
    batches = [_batch(tables[name], cluster, now_ms, found) for name, found in rows.items()]
    whole = cluster_row(of_nodes, complete=complete)
    return [*batches, make_batch(CLUSTER, cluster, now_ms, {name: [value] for name, value in whole.items()})]


def _tags(table: Table, node: int, labels: Sequence[tuple[str, str]]) -> tuple[tuple[str, Any], ...] | None:
    """The tags of a row, in the table's order; None if a bean's broker is not a number."""
    given: dict[str, Any] = {"broker": node, **dict(labels)}
    try:
        return tuple(
            (tag.name, int(given[tag.name]) if tag.number else str(given[tag.name]))
            for tag in table.tags
            if tag.name != "cluster"
        )
    except ValueError:
        return None


def _batch(table: Table, cluster: str, now_ms: int, rows: Mapping[tuple[tuple[str, Any], ...], Row]) -> Batch:
    columns: dict[str, list[Any]] = {name: [dict(tags)[name] for tags in rows] for name in _tag_names(table)}
    for field in table.fields:
        values = [_as_kind(field.kind, row.get(field.name)) for row in rows.values()]
        if any(value is not None for value in values):
            columns[field.name] = values
    return make_batch(table, cluster, now_ms, columns)


def _tag_names(table: Table) -> list[str]:
    return [tag.name for tag in table.tags if tag.name != "cluster"]


def _as_kind(kind: Kind, value: Any) -> Any:
    """Convert a value to its column's type. KafkaMetrics beans print whole numbers as 45.0; text in a number is null."""
    if value is None:
        return None
    if kind is Kind.TEXT:
        return str(value)
    if not _is_number(value):
        return None
    return round(value) if kind is Kind.INT else float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def cluster_row(nodes: Mapping[int, Row], *, complete: bool) -> Row:
    """The cluster's row. Standby controllers count partitions, too, so controllers' counts take the maximum, not the sum."""
    of_controllers = [row for row in nodes.values() if "active_controller" in row]
    active = [row for row in of_controllers if row["active_controller"]]
    row: Row = {
        "jmx_under_replicated_partitions": _sum(nodes, "under_replicated_partitions"),
        "jmx_under_min_isr_partitions": _sum(nodes, "under_min_isr_partitions"),
        "jmx_offline_partitions": _max(of_controllers, "controller_offline_partitions"),
        "jmx_active_controllers": _active_controllers(nodes, complete=complete),
        "fenced_brokers": _max(active, "fenced_brokers"),
        "active_brokers": _max(active, "active_brokers"),
        "unclean_election_rate": _max(of_controllers, "unclean_election_rate"),
        **{name: _total(nodes, name) if complete else None for name in _TRAFFIC},
    }
    return {name: _as_kind(_KINDS[name], value) for name, value in row.items()}


_KINDS = {field.name: field.kind for field in CLUSTER.fields}


def _active_controllers(nodes: Mapping[int, Row], *, complete: bool) -> int | None:
    """The number of active controllers; None if a controller that did not respond may be active.

    It is certainly 0 if every voter responded, or if all that responded are in an election: a voter that follows a
    leader is not. (The leader's id in their metrics proves nothing: it may be that of the one that died.)
    """
    answered = [row for row in nodes.values() if "active_controller" in row]
    active = sum(int(row["active_controller"]) for row in answered)
    if active or not answered:
        return active or None
    electing = all(row.get("raft_state", _FOLLOWER) not in ("leader", _FOLLOWER) for row in answered)
    voters = _max(answered, "raft_voters")
    all_voters_answered = complete if voters is None else len(answered) >= voters
    return 0 if electing or all_voters_answered else None


def _sum(nodes: Mapping[int, Row], name: str) -> float | None:
    values = [row[name] for row in nodes.values() if name in row]
    return sum(values) if values else None


def _total(nodes: Mapping[int, Row], name: str) -> float | None:
    """The sum, if every broker has a value."""
    return _sum(nodes, name) if all(name in row for row in nodes.values() if _IS_BROKER in row) else None


def _max(rows: Sequence[Row], name: str) -> float | None:
    return max((row[name] for row in rows if name in row), default=None)
