"""Builds the agent's own metrics: rows of the table `agent` about the process, its jobs and its sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagwatch import source_names
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import AGENT
from lagwatch.journal import JournalStats


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """The last run of one job. `cycle_seconds` is None before the first run has finished."""

    name: str
    cycle_seconds: float | None
    skipped_polls: int


def agent_batch(
    agent: str,
    jobs: Sequence[JobMetrics],
    journal: JournalStats,
    rejected_rows: Mapping[str, int],
    *,
    memory_bytes: int | None,
    at_ms: int,
) -> Batch:
    """One row about the process and its journal (its `job` is empty), then one per job, then one per sink."""
    rows: list[dict[str, Any]] = [
        {
            "job": "",
            "memory_bytes": memory_bytes,
            "journal_polls": journal.polls,
            "journal_bytes": journal.bytes,
            "journal_dropped_rows": journal.dropped_rows,
            "journal_in_memory": journal.fault is not None,
        }
    ]
    rows += [{"job": job.name, "cycle_seconds": job.cycle_seconds, "skipped_polls": job.skipped_polls} for job in jobs]
    rows += [
        {"job": sink, "cursor_lag_polls": cursor.lag_polls, "rejected_rows": rejected_rows.get(sink)}
        for sink, cursor in journal.cursors.items()
    ]
    names = {name for row in rows for name in row}
    columns = {name: [row.get(name) for row in rows] for name in names}
    return make_batch(AGENT, "", at_ms, {"agent": [agent] * len(rows), **columns}, source=source_names.AGENT)
