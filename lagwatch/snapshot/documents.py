"""The JSON documents of the read model: `--json` of `lag`, `status`, `explain` and `cluster` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagwatch.snapshot.explain import ExplainedPartition
from lagwatch.snapshot.health import Health
from lagwatch.snapshot.lag import ABOUT, GroupLag, GroupMember, LagRow, Shown
from lagwatch.snapshot.verdicts import GroupVerdict, PartitionVerdict, worst_partitions_first
from lagwatch.snapshot.view import ClusterView, FailedTarget, offset_failures
from lagwatch.source_names import KAFKA
from lagwatch.text import iso_time

Missing = Mapping[str, Sequence[str]]  # names that were requested and do not exist, by kind


def status_document(
    views: Sequence[ClusterView], groups: Sequence[GroupVerdict], missing: Missing, *, with_partitions: bool
) -> dict[str, Any]:
    """`lagwatch status` (docs/verdicts.md)."""
    return {
        "at": iso_time(max(view.at_ms for view in views)),
        "clusters": [_cluster(view) for view in views],
        "groups": [_group(group, with_partitions=with_partitions) for group in groups],
        "missing": missing,
    }


def explain_document(
    view: ClusterView,
    group: GroupVerdict,
    partitions: Sequence[ExplainedPartition],
    commits_from: str,
    commits_fallback: str | None,
) -> dict[str, Any]:
    """`lagwatch explain`: a group as in `status_document`, its partitions with the data behind their verdicts."""
    return {
        "at": iso_time(view.at_ms),
        "cluster": _cluster(view),
        "commits_from": commits_from,
        "commits_fallback": commits_fallback,
        "group": {
            **_group(group, with_partitions=True),
            "partitions": [partition_explanation(one) for one in partitions],
        },
    }


def lag_document(
    view: ClusterView, groups: Sequence[GroupLag], rows: Sequence[Shown], missing: Missing
) -> dict[str, Any]:
    """`lagwatch lag`."""
    return {
        "cluster": view.cluster,
        "at": iso_time(view.at_ms),
        "groups": _group_lags(groups, rows),
        "failures": _failures(failed for failed in view.failures if failed.source == KAFKA),
        "missing": missing,
        "complete": view.complete,
        "overdue": view.overdue,
    }


def health_document(health: Health) -> dict[str, Any]:
    """`lagwatch cluster`."""
    totals = health.totals
    controller = ("active_controllers", "controller", "quorum_epoch", "quorum_voters", "quorum_max_lag")
    return {
        "cluster": health.view.cluster,
        "at": iso_time(health.view.at_ms),
        **{name: value for name, value in totals.items() if name not in controller},
        "quorum": {name: totals.get(name) for name in controller},
        "broker_list": health.brokers,
        "bad_partitions": health.bad_partitions,
        "suspect": health.suspect_line(),
        "problems": health.problems(),
        "failures": _failures(health.view.failures),
    }


def _group(group: GroupVerdict, *, with_partitions: bool) -> dict[str, Any]:
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
        "partitions": [_partition(row) for row in rows] if with_partitions else None,
    }


def _partition(row: PartitionVerdict) -> dict[str, Any]:
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


def partition_explanation(explained: ExplainedPartition) -> dict[str, Any]:
    """One partition of `lagwatch explain`."""
    inputs, owner = explained.inputs, explained.owner
    return {
        **_partition(explained.verdict),
        "mode": "burrow" if inputs.is_burrow else "lagwatch",
        "window": [
            {"slot": slot.number, "at_ms": slot.at_ms, "offset": slot.offset, "step": slot.step, "lag": slot.lag}
            for slot in explained.slots
        ],
        "slots": inputs.window.width,
        "ends": [{"at_ms": at_ms, "offset": end} for at_ms, end in explained.ends],
        "facts": {
            "still_seconds": inputs.still,
            "longest_gap_seconds": inputs.gap or None,
            "patience_seconds": inputs.patience,
            "unread_seconds_low": inputs.unread,
            "log_start_offset": None if inputs.log_start < 0 else inputs.log_start,
            "markers": inputs.markers,
            "had_members": inputs.had_members,
            "has_members": inputs.has_members,
            "member": owner.member if owner else None,
        },
        "rules": [
            {
                "rule": line.spec.number, "name": line.spec.identifier, "answer": line.answer,
                "decides": line.decides, "reached": line.is_reached, "numbers": line.numbers,
            }
            for line in explained.rules
        ],
    }  # fmt: skip


def _group_lags(groups: Sequence[GroupLag], shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """The groups with their selected rows, in the order of the rows; then the groups without rows."""
    selected: dict[str, list[LagRow]] = {}
    for group, row in shown:
        selected.setdefault(group.group, []).append(row)
    by_name = {group.group: group for group in groups}
    order = [*selected, *(name for name, group in by_name.items() if not group.rows)]
    return [_group_lag(by_name[name], selected.get(name, [])) for name in order]


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


def _cluster(view: ClusterView) -> dict[str, Any]:
    """One cluster: the age and completeness of its data."""
    return {
        "cluster": view.cluster,
        "at": iso_time(view.at_ms),
        "watched_seconds": view.watched_seconds,
        "complete": view.complete,
        "overdue": view.overdue,
        "failures": _failures(offset_failures(view)),
    }


def _failures(failures: Iterable[FailedTarget]) -> list[dict[str, Any]]:
    """What could not be queried."""
    return [
        {"source": failed.source, "target": failed.target, "reason": failed.reason, "since_ms": failed.since_ms}
        for failed in failures
    ]
