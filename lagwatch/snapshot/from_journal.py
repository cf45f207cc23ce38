"""Reads the newest snapshot of a cluster from an agent's journal, also while the agent writes it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from lagwatch.batch import is_retired
from lagwatch.clock import Clock, SystemClock
from lagwatch.journal import JournalReader, Poll
from lagwatch.snapshot.names import pick_cluster
from lagwatch.snapshot.snapshot import Snapshot
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import KAFKA
from lagwatch.text import duration_text

_MISSED_POLLS = 3  # after this many intervals without a poll the agent is considered down
_GRACE_SECONDS = 10.0
_UNKNOWN_INTERVAL_SECONDS = 60.0
_TIMES = 20  # recent polls to derive the interval from


def clusters_in(reader: JournalReader) -> list[str]:
    """The names of the clusters in a journal that were not removed from the configuration, sorted."""
    polled = {batch.cluster for batch in reader.newest(tables=["source"]) if not is_retired(batch)}
    return sorted(polled - {""})  # "": the agent itself


def view_journal(path: Path, cluster: str | None, tables: Collection[str], clock: Clock | None = None) -> ClusterView:
    """The newest batches of these tables and of `source`. Raises LagwatchError when the journal has none."""
    clock = clock or SystemClock()
    reader = JournalReader(path, clock)
    name = cluster if cluster is not None else pick_cluster(clusters_in(reader), None, str(path))
    polls = reader.newest_polls(name, {*tables, "source"})
    snapshot = Snapshot.of(name, (batch for poll in polls for batch in poll.batches))
    if cluster is not None and not snapshot.all_of("source"):  # status counts outlive the sources of a removed cluster
        pick_cluster(clusters_in(reader), cluster, str(path))
    now_ms = clock.wall_ms()
    overdue = _overdue(reader.newest_times("source", name, KAFKA, _TIMES), now_ms)
    return ClusterView(
        snapshot,
        now_ms,
        _is_complete(snapshot),
        from_journal=True,
        followed_seconds=float("inf"),
        overdue=overdue,
        lag_poll=_lag_poll(polls),
    )


def _lag_poll(polls: Sequence[Poll]) -> int | None:
    """The number of the newest poll of offsets; None when there is none."""
    written = ((poll.poll, batch) for poll in polls for batch in poll.batches)
    return max((number for number, b in written if b.table == "consumer_lag" and b.source == KAFKA), default=None)


def _is_complete(snapshot: Snapshot) -> bool:
    """Whether the last poll that reached the cluster listed all groups. One that failed leaves the groups as they were."""
    runs = snapshot.columns("source", "target", "up", "complete", source=KAFKA)
    return not any(up and complete is False for target, up, complete in runs if not target)


def _overdue(polled_ms: list[int], now_ms: int) -> str | None:
    """Why all data is old: no poll for several times the usual interval. None when it is current."""
    if not polled_ms:
        return "the journal has no poll of this cluster"
    gaps = [(later - earlier) / 1000 for later, earlier in pairwise(polled_ms)]
    interval = median(gaps) if gaps else _UNKNOWN_INTERVAL_SECONDS
    age = (now_ms - polled_ms[0]) / 1000
    if age <= _MISSED_POLLS * interval + _GRACE_SECONDS:
        return None
    return f"the newest poll is {duration_text(age)} old: is the agent running?"
