"""Replays the end offsets and commits of a journal through the plain-Python Burrow, in the order they were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from lagwatch.journal import Poll
from lagwatch.source_names import KAFKA
from tests.harness.burrow_reference import Storage, evaluate_group

_WEEK = 604_800
_KEPT_ENDS = 10_000

Rows = list[dict[str, Any]]


class BurrowReplay:
    """The journal of one cluster replayed through Burrow's storage and rules, one storage per group."""

    def __init__(self, cluster: str, slots: int = 10) -> None:
        self._cluster, self._slots = cluster, slots
        self._storages: dict[str, Storage] = {}
        self._ends: Rows = []

    def compare(self, polls: Iterable[Poll]) -> Iterator[tuple[int, str, str, str]]:
        """For each poll and group: the recorded verdict and Burrow's."""
        early: Rows = []  # commits before the first end offsets wait for them
        for poll in polls:
            early += self._rows(poll, "commit")
            if self._polled_ms(poll) is not None:
                self._take_ends(self._rows(poll, "topic_partition"))
            if self._ends:
                self._take_commits(early)
                early = []
            yield from self._verdicts(poll)

    def _verdicts(self, poll: Poll) -> Iterator[tuple[int, str, str, str]]:
        polled_ms = self._polled_ms(poll)
        if polled_ms is None:
            return
        settings = {"now": polled_ms // 1000, "allowed_lag": 0, "minimum_complete": 0.0}
        for row in self._rows(poll, "consumer_group"):
            if row["status_text"] and row["group"] in self._storages:
                said = evaluate_group(self._storages[row["group"]].fetch(), settings)["status"]
                yield poll.poll, row["group"], row["status_text"], said

    def _polled_ms(self, poll: Poll) -> int | None:
        """The steady time of a poll of the Kafka job that reached the cluster."""
        runs = [row for row in self._rows(poll, "source") if (row["source"], row["target"]) == (KAFKA, "")]
        return runs[0]["steady_ms"] if runs and runs[0]["up"] else None

    def _take_commits(self, rows: Rows) -> None:
        for row in rows:
            if row["committed_offset"] is None:
                continue
            if row["group"] not in self._storages:
                self._storages[row["group"]] = storage = Storage(self._slots, 0, _WEEK, 0)
                for event in self._ends:
                    storage.take(event)
            event = {"type": "commit", "offset": row["committed_offset"], "timestamp": row["commit_time_ms"]}
            self._storages[row["group"]].take(event | {name: row[name] for name in ("topic", "partition", "order")})

    def _take_ends(self, rows: Rows) -> None:
        partitions = Counter(row["topic"] for row in rows)
        events = [
            {
                "type": "broker",
                "topic": row["topic"],
                "partition": row["partition"],
                "partition_count": partitions[row["topic"]],
                "offset": row["log_end_offset"],
            }
            for row in rows
            if row["log_end_offset"] is not None and not row["stale"]
        ]
        self._ends = (self._ends + events)[-_KEPT_ENDS:]
        for storage in self._storages.values():
            for event in events:
                storage.take(event)

    def _rows(self, poll: Poll, table: str) -> Rows:
        mine = (batch for batch in poll.batches if batch.table == table and batch.cluster == self._cluster)
        return [row for batch in mine for row in batch.rows.to_pylist()]
