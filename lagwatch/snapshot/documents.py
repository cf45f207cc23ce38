"""The JSON documents of the read model: what `--json` prints and the HTTP API returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lagwatch.kafka_names import COMMITS, KAFKA
from lagwatch.snapshot.groups import GroupVerdict, PartitionVerdict, worst_partitions_first
from lagwatch.snapshot.lag import ABOUT, GroupLag, GroupMember, LagRow, Shown
from lagwatch.snapshot.view import ClusterView, FailedTarget
from lagwatch.text import iso_time


def group_document(group: GroupVerdict, *, with_partitions: bool) -> dict[str, Any]:
    """A group; `partitions` is null where they were not requested."""
    about = dict(group.about)
    del about["status_text"], about["stale"], about["age_seconds"]
    count, rates = about.pop("partitions"), (about["produce_rate"], about["consume_rate"])
    rows = worst_partitions_first(group.partitions)
    return {
        "cluster": group.cluster,
        "group": group.group,
        "status": group.status,
        "stale": group.stale,
        "age_seconds": group.age_seconds,
        "unsure": group.unsure,
        **about,
        "total_lag": group.lag,
        "trend": None if None in rates else rates[0] - rates[1],
        "partition_count": count or 0,
        "partitions": [partition_document(row) for row in rows] if with_partitions else None,
    }


def partition_document(row: PartitionVerdict) -> dict[str, Any]:
    """One partition."""
    return {
        "topic": row.topic,
        "partition": row.partition,
        "status": row.status,
        "why": row.why,
        **row.about,
        "consume_rate": row.consume_rate,
        "produce_rate": row.produce_rate,
        "catch_up_seconds": row.catch_up_seconds,
        "loss_seconds": row.loss_seconds,
    }


def lag_documents(groups: Sequence[GroupLag], shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """The groups with their chosen rows, in the order of the rows; then the groups that have none."""
    chosen: dict[str, list[LagRow]] = {}
    for group, row in shown:
        chosen.setdefault(group.group, []).append(row)
    by_name = {group.group: group for group in groups}
    order = [*chosen, *(name for name, group in by_name.items() if not group.rows)]
    return [_group_lag(by_name[name], chosen.get(name, [])) for name in order]


def _group_lag(group: GroupLag, rows: Sequence[LagRow]) -> dict[str, Any]:
    return {
        "group": group.group,
        **{name: group.about.get(name) for name in ABOUT},
        "total_lag": group.total_lag,
        "max_lag": group.max_lag,
        "unknown_lag_partitions": group.unknown_lags,
        "stale_partitions": sum(1 for row in group.rows if row.stale),
        "partitions": [_lag_row(row) for row in rows if row.topic is not None],
        "idle_members": [_owner(row.owner) for row in rows if row.topic is None],
    }


def _lag_row(row: LagRow) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "committed_offset": row.committed_offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "seconds_since_moved": row.seconds_since_moved,
        "stale": row.stale,
        "age_seconds": row.age_seconds,
        **_owner(row.owner),
    }


def _owner(owner: GroupMember | None) -> dict[str, Any]:
    return {
        "member": owner.member if owner else None,
        "host": owner.host if owner else None,
        "client_id": owner.client_id if owner else None,
    }


def failures_of(view: ClusterView) -> list[FailedTarget]:
    """Failed queries of groups and offsets."""
    return [failed for failed in view.failures if failed.source in (KAFKA, COMMITS)]


def cluster_document(view: ClusterView) -> dict[str, Any]:
    """One cluster: the age and completeness of its data."""
    return {
        "cluster": view.cluster,
        "at": iso_time(view.at_ms),
        "watched_seconds": view.watched_seconds,
        "complete": view.complete,
        "overdue": view.overdue,
        "failures": failure_documents(failures_of(view)),
    }


def failure_documents(failures: Iterable[FailedTarget]) -> list[dict[str, Any]]:
    """What could not be queried."""
    return [
        {"source": failed.source, "target": failed.target, "reason": failed.reason, "since_ms": failed.since_ms}
        for failed in failures
    ]
