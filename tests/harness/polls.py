"""Builds polls like the Kafka job from dictionaries of topics, end offsets, groups and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, CLUSTER, CONSUMER_GROUP, CONSUMER_LAG, GROUP_MEMBER, TOPIC, TOPIC_PARTITION
from lagwatch.protocols import Collected, Failure


def poll(
    ends: Mapping[tuple[str, int], int | None],
    commits: Mapping[tuple[str, str, int], int],
    *,
    groups: Sequence[str] | None = None,
    not_asked: Sequence[str] = (),
    starts: Mapping[tuple[str, int], int] | None = None,
    states: Mapping[str, str] | None = None,
    protocol_types: Mapping[str, str] | None = None,
    members: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    failures: Sequence[Failure] = (),
    reached: Sequence[str] = ("broker 1",),
    complete: bool = True,
    ends_read: Mapping[int, tuple[int, int]] | None = None,
    at_ms: int = 0,
) -> Collected:
    """One poll. An end of None has no response; a group in `not_asked` is listed but has no commits response."""
    listed = list(dict.fromkeys([*(groups or []), *(group for group, _, _ in commits), *not_asked]))
    topics = list(dict.fromkeys(topic for topic, _ in ends))
    batches = [
        _batch(TOPIC, at_ms, topic=topics, topic_id=[(topic_ids or {}).get(t, f"id-{t}") for t in topics]),
        _batch(
            TOPIC_PARTITION,
            at_ms,
            topic=[t for t, _ in ends],
            partition=[p for _, p in ends],
            leader=[1 for _ in ends],
            log_start_offset=[None if end is None else (starts or {}).get(key, 0) for key, end in ends.items()],
            log_end_offset=list(ends.values()),
            last_stable_offset=list(ends.values()),
        ),
        _batch(
            CONSUMER_GROUP,
            at_ms,
            group=listed,
            state=[(states or {}).get(group, "Stable") for group in listed],
            protocol_type=[(protocol_types or {}).get(group, "") for group in listed],
            members=[len((members or {}).get(group, ())) for group in listed],
            stale=[group in not_asked for group in listed],
        ),
        _batch(
            GROUP_MEMBER,
            at_ms,
            group=[group for group, ms in (members or {}).items() for _ in ms],
            member=[m for ms in (members or {}).values() for m, _ in ms],
            assignment=[a for ms in (members or {}).values() for _, a in ms],
        ),
        _batch(
            CONSUMER_LAG,
            at_ms,
            group=[group for group, _, _ in commits],
            topic=[topic for _, topic, _ in commits],
            partition=[p for _, _, p in commits],
            committed_offset=list(commits.values()),
        ),
        _batch(BROKER, at_ms, broker=[1]),
        _batch(CLUSTER, at_ms, brokers=[1]),
    ]
    return Collected(batches, list(failures), list(reached), complete=complete, ends_read=ends_read or {})


def _batch(table: Any, at_ms: int, **columns: list[Any]) -> Batch:
    return make_batch(table, "east", at_ms, columns)


def unreachable(reason: str = "nobody answered") -> Collected:
    """A poll without any response."""
    return Collected([], [Failure("kafka", "", reason)], complete=False)


def rows_of(batches: Sequence[Batch], table: str) -> list[dict[str, Any]]:
    """The rows of one table, as dictionaries."""
    return [row for batch in batches if batch.table == table for row in batch.rows.to_pylist()]


def lag_by_key(batches: Sequence[Batch]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The lag rows by group, topic and partition."""
    rows = rows_of(batches, "consumer_lag")
    by_key = {(row["group"], row["topic"], row["partition"]): row for row in rows}
    assert len(by_key) == len(rows), "a row is there twice"
    return by_key
