"""A snapshot as of one point in time: its age, what could not be queried, and whether it is complete.

Commands get it from a live poll (`cli/live_source.py`) or from an agent's journal (`from_journal.py`); what they
print does not depend on which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lagwatch.evaluation import EvaluatedRows
from lagwatch.snapshot.snapshot import Snapshot
from lagwatch.source_names import COMMITS, KAFKA
from lagwatch.text import duration_text, one_line

_WITHOUT_ANSWER = {"source", "group_member"}  # tables that can have rows when no broker responded


@dataclass(frozen=True, slots=True)
class FailedTarget:
    """A target that could not be queried. `down_seconds` is None when it was never queried successfully."""

    source: str
    target: str
    reason: str
    since_ms: int
    down_seconds: float | None


def failure_lines(failures: Iterable[FailedTarget]) -> list[str]:
    """A line for each target and reason; a broker that several jobs cannot reach has one line."""
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

    `complete` is False when groups may exist that no broker listed. `followed_seconds` is for how long offsets have been
    observed: None after a single poll, which does not show whether they move. `overdue` says why all data is old.
    `evaluated` has the windows behind the verdicts, where they were requested. `watched_seconds` is for how long a command
    polled the cluster; None when an agent did. `lag_poll` is the number of the journal's poll that the lag is from.
    """

    snapshot: Snapshot
    now_ms: int
    complete: bool = True
    from_journal: bool = False
    followed_seconds: float | None = None
    overdue: str | None = None
    evaluated: EvaluatedRows | None = None
    watched_seconds: float | None = None
    lag_poll: int | None = None

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self.snapshot.cluster

    @property
    def at_ms(self) -> int:
        """When its newest batch was collected."""
        at_ms = self.snapshot.at_ms
        return self.now_ms if at_ms is None else at_ms

    @property
    def failures(self) -> list[FailedTarget]:
        """The targets that could not be queried."""
        failed = []
        for batch in self.snapshot.all_of("source"):
            for row in batch.rows.to_pylist():
                if not row["up"]:
                    was_up = row["last_success_age_seconds"] is not None or self.from_journal
                    down = max(0.0, (self.now_ms - row["since_ms"]) / 1000) if was_up else None
                    failed.append(FailedTarget(row["source"], row["target"], row["error"] or "", row["since_ms"], down))
        return failed

    @property
    def unreachable(self) -> str | None:
        """Why there is no data of the cluster; None when there is some."""
        if any(len(batch) and batch.table not in _WITHOUT_ANSWER for batch in self.snapshot.batches.values()):
            return None
        reasons = [failed.reason for failed in self.failures if failed.source == KAFKA]
        return "; ".join(reasons) or "nothing was queried"

    def columns(self, table: str, *names: str, source: str | None = None) -> Iterator[tuple[Any, ...]]:
        """These columns of a table, row by row, source after source."""
        return self.snapshot.columns(table, *names, source=source)

    def merged(self, table: str) -> list[dict[str, Any]]:
        """One row for each key, from the fields each source writes."""
        return self.snapshot.merged(table)

    def age_seconds(self, table: str, source: str) -> float:
        """How long ago the newest batch of a table was collected by a source."""
        newest = self.snapshot.newest(table, source)
        return max(0.0, (self.now_ms - newest.at_ms) / 1000) if newest is not None else 0.0


def offset_failures(view: ClusterView) -> list[FailedTarget]:
    """The failed queries of groups and offsets."""
    return [failed for failed in view.failures if failed.source in (KAFKA, COMMITS)]
