"""The tables about what lagwatch saw happen, what it asks, and itself."""

from __future__ import annotations

from lagwatch.catalogue.model import Field, Kind, Table, Tag
from lagwatch.catalogue.shared import CLUSTER_TAG

EVENT = Table(
    "event",
    "Something that changed.",
    (
        CLUSTER_TAG,
        Tag(
            "kind",
            "what kind of change: topic_recreated, rebalance, group_gone, topic_gone, clock_step, disagreement, ...",
        ),
        Tag("subject", "what it happened to: without it two events of one poll would be one point in InfluxDB"),
    ),
    (
        Field("before", Kind.TEXT, "value before"),
        Field("after", Kind.TEXT, "value after"),
        Field("why", Kind.TEXT, "one sentence"),
    ),
)
SOURCE = Table(
    "source",
    "One thing the agent asks: a collector of a cluster, or one broker of it.",
    (
        CLUSTER_TAG,
        Tag("source", "the collector"),
        Tag("target", "what was asked: a broker, a group, or empty for all of it"),
    ),
    (
        Field("up", Kind.BOOL, "whether the last attempt succeeded"),
        Field("since_ms", Kind.INT, "wall time at which it became so", "ms"),
        Field("duration_seconds", Kind.FLOAT, "how long the last attempt took", "s"),
        Field("last_success_age_seconds", Kind.SECONDS, "time since it last succeeded", "s"),
        Field("error", Kind.TEXT, "the reason in words; absent when up"),
        Field("steady_ms", Kind.INT, "time of the run on a clock that ignores steps of the wall clock", "ms"),
    ),
)
AGENT = Table(
    "agent",
    "The agent itself.",
    (Tag("agent", "name of the agent"), Tag("job", "job or sink the row is about; empty for the agent as a whole")),
    (
        Field("cycle_seconds", Kind.FLOAT, "how long the last run of the job took", "s"),
        Field("skipped_polls", Kind.INT, "runs skipped because the one before was still going", "runs"),
        Field("memory_bytes", Kind.INT, "resident memory of the agent", "bytes"),
        Field("journal_polls", Kind.INT, "polls kept in the journal", "polls"),
        Field("journal_bytes", Kind.INT, "size of the journal, pages and write-ahead log", "bytes"),
        Field("journal_dropped_rows", Kind.INT, "rows lost to the cap, to corruption or to a full disk", "rows"),
        Field("journal_in_memory", Kind.BOOL, "the journal cannot be written: polls are kept in memory"),
        Field("cursor_lag_polls", Kind.INT, "polls a sink has still to ship", "polls"),
        Field("rejected_rows", Kind.INT, "rows a sink refused since the agent began to feed it", "rows"),
    ),
)
REJECTED = Table(
    "rejected",
    "A row that a sink refused; kept in the journal only.",
    (CLUSTER_TAG, Tag("sink", "the sink"), Tag("table", "table of the row")),
    (
        Field("row", Kind.TEXT, "the row as JSON"),
        Field("at_ms", Kind.INT, "wall time of the row", "ms"),
        Field("reason", Kind.TEXT, "the sink's own words"),
    ),
)
