"""The dashboard of the brokers of a cluster: load, traffic, request times, replicas, balance, JVM and quorum."""

from __future__ import annotations

from collections.abc import Sequence

from grafana.generator import flux, palette
from grafana.generator.boards import Board, Row, Variable
from grafana.generator.panels import (
    NEVER_RED,
    NO_DATA,
    NO_JMX,
    Line,
    Panel,
    coloured_override,
    lines_panel,
    stat_panel,
    table_panel,
    unit_override,
)
from lagwatch.catalogue import BROKER, BROKER_REQUEST, CLUSTER

_CLUSTER = flux.chosen("cluster")
_BROKERS = flux.chosen("cluster", "broker")
_REQUESTS = flux.chosen("cluster", "broker", "request")
_BROKER = "broker ${__field.labels.broker}"
_PARTS = {
    "queue_mean_ms": "waiting for a handler",
    "local_mean_ms": "processed by the leader",
    "remote_mean_ms": "waiting for followers or data",
    "throttle_mean_ms": "throttled by a quota",
    "response_queue_mean_ms": "response waiting for a network thread",
    "response_send_mean_ms": "being sent",
}


def brokers() -> Board:
    """The dashboard; the request variable filters the panels about request times."""
    return Board(
        "brokers",
        "Brokers and cluster",
        "One cluster: idle percentages, bytes, request times by phase, replicas, balance, JVM and quorum.",
        (
            Variable("cluster", "Cluster", CLUSTER),
            Variable("broker", "Broker", BROKER, ("cluster",), several=True),
            Variable("request", "Request", BROKER_REQUEST, ("cluster",), several=True),
        ),
        (
            Row("Now", _numbers()),
            Row("Brokers", [_table()]),
            Row(
                "Load",
                [_idle("request_handler_idle", "Request handlers"), _idle("network_processor_idle", "Network threads")],
            ),
            Row("Traffic", [_bytes(), _requests()]),
            Row("Where requests spend their time", [_parts(), _slowest()]),
            Row("Replicas", [_isr(), _under_replicated()]),
            Row("Balance", [_ratio(), _disk()]),
            Row("JVM and host", _jvm()),
            Row("Controllers' quorum", _quorum()),
        ),
    )


def _lines(field: str, name: str = _BROKER, fn: str = "mean", **overrides: bool) -> Line:
    return Line(flux.windows(BROKER, field, ["broker"], _BROKERS, fn=fn), name, **overrides)  # type: ignore[arg-type]


def _numbers() -> list[Panel]:
    def one(title: str, field: str, steps: palette.Steps, means: str, red: str, no_data: str = NO_DATA) -> Panel:
        text = flux.newest(CLUSTER, field, ["cluster"], _CLUSTER)
        return stat_panel(title, text, steps=steps, means=means, red=red, width=3, no_data=no_data)

    return [
        one("Brokers", "brokers", palette.NO_COLOUR, "Brokers in the cluster's metadata.", NEVER_RED),
        one(
            "Active controllers", "active_controllers", palette.ONE_IS_RIGHT, "Exactly one is right.",
            "0: the quorum has no leader. 2: two nodes act as leader.",
        ),
        one(
            "Under-replicated", "under_replicated_partitions", palette.ANY_IS_BAD,
            "Partitions with a replica out of sync.", "find the broker with Missing from ISR in the table.",
        ),
        one(
            "Offline", "offline_partitions", palette.ANY_IS_BAD, "Partitions without a leader.",
            "they cannot be read or written: bring back a broker with an in-sync replica.",
        ),
        one(
            "Below min ISR", "under_min_isr_partitions", palette.ANY_IS_BAD,
            "Partitions that refuse writes with acks=all.", "bring back the missing replicas.",
        ),
        one(
            "At min ISR", "at_min_isr_partitions", palette.ANY_IS_WATCHED,
            "Partitions that cannot lose another replica without refusing writes.", NEVER_RED, NO_JMX,
        ),
        one(
            "Fenced brokers", "fenced_brokers", palette.ANY_IS_BAD,
            "Brokers that the controller has fenced.", "their heartbeats do not reach the controller.", NO_JMX,
        ),
        one(
            "Disagreements", "disagreements", palette.ANY_IS_WATCHED,
            "Values that differ between JMX and the Kafka API for more than two polls.", NEVER_RED, NO_JMX,
        ),
    ]  # fmt: skip


def _table() -> Panel:
    headings = {
        "registered": "Registered",
        "controller": "Controller",
        "leaders": "Leaders",
        "partitions": "Replicas",
        "missing_from_isr": "Missing from ISR",
        "size_bytes": "Size",
        "disk_free_bytes": "Disk free",
        "request_handler_idle": "Handlers idle",
        "network_processor_idle": "Network idle",
        "heap_used_bytes": "Heap used",
        "uptime_seconds": "Up for",
    }
    return table_panel(
        "Brokers",
        flux.newest_columns(BROKER, list(headings), ["broker"], _BROKERS),
        {"broker": "Broker", **headings},
        means="One row per broker; 1 means yes. A dash: no value, usually because JMX is not configured.",
        red="Registered 0: the broker is down. Missing from ISR: its replicas are behind, or it is down.",
        overrides={
            "Registered": coloured_override(((None, palette.BAD), (1, palette.GOOD))),
            "Controller": unit_override("none"),
            "Missing from ISR": coloured_override(palette.ANY_IS_BAD),
            "Size": unit_override("bytes"),
            "Disk free": unit_override("bytes"),
            "Heap used": unit_override("bytes"),
            "Handlers idle": coloured_override(palette.falling(0.1, 0.3), "percentunit"),
            "Network idle": coloured_override(palette.falling(0.1, 0.3), "percentunit"),
            "Up for": unit_override("s"),
            **{heading: unit_override("short") for heading in ("Leaders", "Replicas")},
        },
        height=7,
    )


def _idle(field: str, what: str) -> Panel:
    return lines_panel(
        f"{what}: share of time idle",
        [_lines(field, fn="min")],
        unit="percentunit",
        maximum=1,
        steps=palette.falling(0.1, 0.3),
        means="The minimum of each window. 100 %: the broker has nothing to do.",
        red="below 10 %: the broker is at its limit. Spread leaders, add brokers or threads.",
        no_data=NO_JMX,
    )


def _bytes() -> Panel:
    return lines_panel(
        "Bytes in and out per second",
        [
            _lines("bytes_in_rate", f"in, {_BROKER}"),
            _lines("bytes_out_rate", f"out, {_BROKER}", dashed=True),
        ],
        unit="Bps",
        means="Bytes written by producers and read by consumers, without replication.",
        no_data=NO_JMX,
    )


def _requests() -> Panel:
    text = flux.windows(BROKER_REQUEST, "rate", ["broker", "request"], _REQUESTS, then=flux.summed(["request"]))
    return lines_panel(
        "Requests per second by type",
        [Line(text, "${__field.labels.request}")],
        unit="reqps",
        means="Sum over the selected brokers. FetchConsumer rises but bytes do not: fetches return nothing.",
        no_data=NO_JMX,
    )


def _parts() -> Panel:
    def part(field: str, name: str) -> Line:
        return Line(
            flux.windows(BROKER_REQUEST, field, ["broker", "request"], _REQUESTS, then=flux.summed([], "mean")), name
        )

    return lines_panel(
        "Mean request time by phase",
        [part(field, name) for field, name in _PARTS.items()],
        unit="ms",
        stacked=True,
        means="Mean over the selected brokers and request types; select one type above for its own time. "
        "The largest phase shows where to look: request handlers, the leader's disk, followers, a quota, or the network.",
        no_data=NO_JMX,
    )


def _slowest() -> Panel:
    text = flux.windows(
        BROKER_REQUEST, "total_p99_ms", ["broker", "request"], _REQUESTS, fn="max", then=flux.summed(["request"], "max")
    )
    return lines_panel(
        "99th percentile of total time by request type",
        [Line(text, "${__field.labels.request}")],
        unit="ms",
        means="The slowest of the selected brokers. Fetches wait for data by design: a long time is normal.",
        no_data=NO_JMX,
    )


def _isr() -> Panel:
    return lines_panel(
        "ISR shrinks and expands per second",
        [
            _lines("isr_shrink_rate", f"out, {_BROKER}", fn="max"),
            _lines("isr_expand_rate", f"back, {_BROKER}", fn="max", dashed=True),
        ],
        unit="none",
        means="Both should be near zero. A restart causes one pair; repeated pairs mean a slow disk or network.",
        no_data=NO_JMX,
    )


def _under_replicated() -> Panel:
    return lines_panel(
        "Replicas missing from the ISR, by broker",
        [_lines("missing_from_isr", fn="max")],
        means="Out-of-sync replicas on each broker. One broker: look at that broker. All brokers: look at the network.",
    )


def _ratio() -> Panel:
    return lines_panel(
        "Balance: leaders and incoming bytes relative to the mean",
        [
            _lines("leaders_ratio", f"leaders, {_BROKER}"),
            _lines("bytes_in_ratio", f"bytes in, {_BROKER}", dashed=True),
        ],
        unit="none",
        steps=((None, palette.GOOD), (1.5, palette.WATCH), (2, palette.BAD)),
        means="1 is even. 2: twice the mean of all brokers.",
        red="run a preferred leader election; if that does not help, move partitions.",
    )


def _disk() -> Panel:
    return lines_panel(
        "Free space of the log volumes",
        [_lines("disk_free_bytes", fn="min")],
        unit="bytes",
        means="Reported by Kafka 3.3 and later. Extend a falling line to see when the disk is full.",
    )


def _jvm() -> list[Panel]:
    def one(title: str, lines: Sequence[Line], unit: str, means: str, most: float | None = None) -> Panel:
        return lines_panel(title, lines, unit=unit, means=means, maximum=most, width=6, no_data=NO_JMX)

    return [
        one(
            "Java heap in use", [_lines("heap_used_bytes", fn="max")], "bytes",
            "A sawtooth is normal; rising minima mean a leak.",
        ),
        one(
            "Share of time in garbage collection", [_lines("gc_share", fn="max")], "percentunit",
            "Above 5 % for a long time: the heap is too small.",
        ),
        one("CPU cores used", [_lines("cpu_cores")], "none", "CPU cores used by each broker."),
        one(
            "Open file descriptors", [_lines("open_file_descriptors", fn="max")], "short",
            "Compare with the limit of the process.",
        ),
    ]  # fmt: skip


def _quorum() -> list[Panel]:
    return [
        lines_panel(
            "Lag of the slowest voter (records)",
            [Line(flux.windows(CLUSTER, "quorum_max_lag", ["cluster"], _CLUSTER, fn="max"), "records")],
            width=6,
            means="Should be near zero. It grows when a controller is down.",
        ),
        lines_panel(
            "Quorum epoch",
            [Line(flux.windows(CLUSTER, "quorum_epoch", ["cluster"], _CLUSTER, fn="max"), "epoch")],
            width=6,
            minimum=None,
            means="Each step is a controller election. Repeated steps: the controllers lose contact with each other.",
        ),
        lines_panel(
            "Time to commit metadata",
            [_lines("raft_commit_latency_ms", "node ${__field.labels.broker}", fn="max")],
            unit="ms",
            width=6,
            means="Mean time to commit a record of the metadata log, on the leader.",
            no_data=NO_JMX,
        ),
        lines_panel(
            "Lag of the applied metadata",
            [_lines("metadata_lag_ms", fn="max")],
            unit="ms",
            width=6,
            means="Age of the metadata that each broker has applied.",
            no_data=NO_JMX,
        ),
    ]
