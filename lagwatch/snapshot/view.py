"""A snapshot as it looks at one moment: how old it is, what could not be queried, and how far it can be trusted.

Commands get it from a live poll (`cli/live_source.py`) or from an agent's journal (`from_journal.py`); what they show does
not depend on which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lagwatch.evaluation import EvaluatedRows
from lagwatch.kafka_names import KAFKA
from lagwatch.snapshot.snapshot import Snapshot
from lagwatch.text import duration_text, one_line

_WITHOUT_ANSWER = {"source", "group_member"}  # tables that can have rows when no broker answered


@dataclass(frozen=True, slots=True)
class FailedTarget:
    """One thing that could not be queried. `down_seconds` is known only when it was queried before."""

    source: str
    target: str
    reason: str
    since_ms: int
    down_seconds: float | None


def failure_lines(failures: Iterable[FailedTarget]) -> list[str]:
    """A line for each target and reason; a broker that several jobs could not reach is reported once."""
    sources: dict[tuple[str, str], list[FailedTarget]] = {}
    for failed in failures:
        sources.setdefault((failed.target, failed.reason), []).append(failed)
    lines = []
    for (target, reason), same in sources.items():
        jobs = ", ".join(failed.source for failed in same)
        what = f"{one_line(target)} ({jobs})" if target else jobs
        down = max((failed.down_seconds for failed in same if failed.down_seconds is not None), default=None)
        since = "" if down is None else f" for {duration_text(down)}"
        lines.append(f"could not query {what}{since}: {one_line(reason)}")
    return lines


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster's snapshot at `now_ms`.

    `complete` is false when groups may exist that no broker listed. `followed_seconds` is for how long offsets have been
    watched: None after a single poll, which cannot tell whether they move. `overdue` says why all of it is old.
    `evaluated` holds the windows behind the verdicts, where they were asked for. `watched_seconds` is for how long a
    command polled by itself; None where an agent did.
    """

    snapshot: Snapshot
    now_ms: int
    complete: bool = True
    from_journal: bool = False
    followed_seconds: float | None = None
    overdue: str | None = None
    evaluated: EvaluatedRows | None = None
    watched_seconds: float | None = None

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self.snapshot.cluster

    @property
    def at_ms(self) -> int:
        """When the newest of it was collected."""
        at_ms = self.snapshot.at_ms
        return self.now_ms if at_ms is None else at_ms

    @property
    def failures(self) -> list[FailedTarget]:
        """What could not be queried."""
        failed = []
        for batch in self.snapshot.all_of("source"):
            for row in batch.rows.to_pylist():
                if not row["up"]:
                    known = row["last_success_age_seconds"] is not None or self.from_journal
                    down = max(0.0, (self.now_ms - row["since_ms"]) / 1000) if known else None
                    failed.append(FailedTarget(row["source"], row["target"], row["error"] or "", row["since_ms"], down))
        return failed

    @property
    def unreachable(self) -> str | None:
        """Why nothing at all is known of the cluster; None when something is."""
        if any(table not in _WITHOUT_ANSWER for table, _ in self.snapshot.batches):
            return None
        reasons = [failed.reason for failed in self.failures if failed.source == KAFKA]
        return "; ".join(reasons) or "nothing was queried"

    def columns(self, table: str, *names: str, source: str | None = None) -> Iterator[tuple[Any, ...]]:
        """These columns of a table, row by row, source after source."""
        return self.snapshot.columns(table, *names, source=source)

    def merged(self, table: str) -> list[dict[str, Any]]:
        """One row for each key, from the fields each source writes."""
        return self.snapshot.merged(table)

    def age_seconds(self, table: str) -> float:
        """How long ago the newest batch of a table was collected."""
        newest = self.snapshot.newest(table)
        return max(0.0, (self.now_ms - newest.at_ms) / 1000) if newest is not None else 0.0
