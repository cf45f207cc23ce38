"""The tables about changes, the state of the sources, and the agent."""

from __future__ import annotations

from lagwatch.catalogue.model import Field, Kind, Table, Tag
from lagwatch.catalogue.shared import CLUSTER_TAG
from lagwatch.catalogue.volume import JOBS_PER_CLUSTER, Cadence, Cost, InfluxDefaults, Volume
from lagwatch.event_kinds import EventKind

EVENT = Table(
    "event",
    "Changes that lagwatch detected.",
    (
        CLUSTER_TAG,
        Tag("kind", f"Kind of change: {', '.join(EventKind)}."),
        Tag("subject", "Object that changed."),  # a tag: else two events of one poll would be one point in InfluxDB
    ),
    (
        Field("before", Kind.TEXT, "Value before the change."),
        Field("after", Kind.TEXT, "Value after the change."),
        Field("why", Kind.TEXT, "The change in one sentence."),
    ),
    volumes=(Volume(Cadence.CHANGES, lambda n: n.groups, series="kinds of event x changed objects"),),
    influx=InfluxDefaults(),
)
SOURCE = Table(
    "source",
    "State of each source: a collector, a target it polls, or a sink.",
    (
        CLUSTER_TAG,
        Tag("source", "Name of the collector or sink."),
        Tag("target", "Target of the requests: a broker or a group; empty for the source as a whole."),
    ),
    (
        Field("up", Kind.BOOL, "Whether the last attempt succeeded."),
        Field("since_ms", Kind.INT, "Wall time at which `up` last changed.", "ms"),
        Field("duration_seconds", Kind.FLOAT, "Duration of the last attempt.", "s"),
        Field("last_success_age_seconds", Kind.SECONDS, "Time since the last successful attempt.", "s"),
        Field("error", Kind.TEXT, "Reason of the failure in words; absent when up."),
        Field("fallback", Kind.TEXT, "Why another source is used instead, where that is no failure; absent otherwise."),
        Field("steady_ms", Kind.INT, "Time of the run on a clock that ignores steps of the wall clock.", "ms"),
        Field("complete", Kind.BOOL, "False when the run may have missed objects, such as groups; absent for targets."),
        Field("ends_request_ms", Kind.INT, "Time from the start of the run to the request for log end offsets.", "ms"),
        Field("ends_response_ms", Kind.INT, "Time from the start of the run to the broker's log end offsets.", "ms"),
        Field("retired", Kind.BOOL, "True in the last rows of a source removed from the configuration; else absent."),
    ),
    volumes=(
        Volume(
            Cadence.KAFKA,
            lambda n: JOBS_PER_CLUSTER + n.brokers,
            Cost(batch=520, row=15),
            series="7 collectors, 5 of them also with every broker; JMX and sinks come on top",
            series_count=lambda n: JOBS_PER_CLUSTER + 5 * n.brokers,
        ),
    ),
    influx=InfluxDefaults(),
)
AGENT = Table(
    "agent",
    "State of the agent.",
    (
        Tag("agent", "Name of the agent in the configuration."),
        Tag("job", "Job or sink of the row; empty for the agent as a whole."),
    ),
    (
        Field("cycle_seconds", Kind.FLOAT, "Duration of the last run of the job.", "s"),
        Field("skipped_polls", Kind.INT, "Runs skipped because the previous run had not finished.", "runs"),
        Field("memory_bytes", Kind.INT, "Resident memory of the agent.", "bytes"),
        Field("journal_polls", Kind.INT, "Polls in the journal.", "polls"),
        Field("journal_bytes", Kind.INT, "Size of the journal: pages and write-ahead log.", "bytes"),
        Field("journal_dropped_rows", Kind.INT, "Rows lost to the size cap, corruption or a full disk.", "rows"),
        Field("journal_in_memory", Kind.BOOL, "Whether the journal cannot be written and polls are kept in memory."),
        Field("cursor_lag_polls", Kind.INT, "Polls that the sink has not shipped yet.", "polls"),
        Field(
            "rejected_rows",
            Kind.INT,
            "Rows that the sink has rejected since the agent last started or reloaded.",
            "rows",
        ),
    ),
    volumes=(
        Volume(
            Cadence.AGENT,
            lambda n: JOBS_PER_CLUSTER * n.clusters + 1,
            Cost(batch=570, row=16),
            series="1, and each job and sink",
        ),
    ),
    influx=InfluxDefaults(),
)
REJECTED = Table(
    "rejected",
    "Rows that a sink rejected; kept only in the journal.",
    (CLUSTER_TAG, Tag("sink", "Name of the sink."), Tag("table", "Table of the row.")),
    (
        Field("row", Kind.TEXT, "The row as JSON."),
        Field("at_ms", Kind.INT, "Wall time of the row.", "ms"),
        Field("reason", Kind.TEXT, "Error message of the sink."),
    ),
)
