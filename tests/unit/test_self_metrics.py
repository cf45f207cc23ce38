"""The agent's rows about itself: the process, its jobs and its sinks."""

from __future__ import annotations

from pathlib import Path

from lagwatch.journal import CursorStats, JournalStats
from lagwatch.runtime.self_metrics import JobMetrics, agent_batch

JOURNAL = JournalStats(
    path=Path("journal.db"),
    polls=7,
    rows=70,
    bytes=4096,
    oldest_ms=1,
    newest_ms=2,
    newest_poll=9,
    tables={},
    dropped={"thinned": 3, "corrupt": 1},
    cursors={"influxdb": CursorStats(5, (), 4), "archive": CursorStats(9, (), 0)},
    checkpoint_poll=None,
    checkpoint_age_ms=None,
    fault="the disk is full",
)
JOBS = [JobMetrics("east/kafka", 0.4, 2), JobMetrics("east/jmx", None, 0)]


def test_each_row_has_the_metrics_of_its_kind_and_no_others() -> None:
    batch = agent_batch("vm", JOBS, JOURNAL, {"influxdb": 6}, memory_bytes=1000, at_ms=5)
    rows = [{name: value for name, value in row.items() if value is not None} for row in batch.rows.to_pylist()]
    assert (batch.table, batch.cluster, batch.at_ms, batch.source) == ("agent", "", 5, "agent")
    assert [row.pop("agent") for row in rows] == ["vm"] * 5
    process, kafka, jmx, influxdb, archive = rows
    assert process == {
        "job": "",
        "memory_bytes": 1000,
        "journal_polls": 7,
        "journal_bytes": 4096,
        "journal_dropped_rows": 4,
        "journal_in_memory": True,
    }
    assert round(kafka.pop("cycle_seconds"), 3) == 0.4
    assert kafka == {"job": "east/kafka", "skipped_polls": 2}
    assert jmx == {"job": "east/jmx", "skipped_polls": 0}
    assert influxdb == {"job": "influxdb", "cursor_lag_polls": 4, "rejected_rows": 6}
    assert archive == {"job": "archive", "cursor_lag_polls": 0}


def test_without_jobs_and_sinks_there_is_one_row() -> None:
    journal = JournalStats(Path("j"), 0, 0, 0, None, None, 0, {}, {}, {}, None, None)
    assert len(agent_batch("vm", [], journal, {}, memory_bytes=None, at_ms=5)) == 1
