"""The brokers of one cluster: load, traffic, where requests spend their time, replicas, balance, JVM and quorum."""

from __future__ import annotations

from collections.abc import Sequence

from grafana.generator import flux, palette
from grafana.generator.boards import Board, Row, Variable
from grafana.generator.panels import (
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
    "local_mean_ms": "worked on by the leader",
    "remote_mean_ms": "waiting for followers or data",
    "throttle_mean_ms": "held back by a quota",
    "response_queue_mean_ms": "answer waiting for the network",
    "response_send_mean_ms": "being sent",
}


def brokers() -> Board:
    """One cluster and its brokers; a kind of request for the panels about time."""
    return Board(
        "brokers",
        "Brokers and cluster",
        "One cluster: idle percentages, bytes, requests by part of their time, replicas, balance, JVM and quorum.",
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
        one("Brokers", "brokers", palette.NO_COLOUR, "Brokers in the cluster's metadata.", "It has no red."),
        one(
            "Active controllers", "active_controllers", palette.ONE_IS_RIGHT, "Exactly one is right.",
            "0: the quorum has no leader. 2: two nodes think they lead.",
        ),
        one(
            "Under-replicated", "under_replicated_partitions", palette.ANY_IS_BAD,
            "Partitions with a replica out of sync.", "see which broker has Missing from ISR in the table.",
        ),
        one(
            "Offline", "offline_partitions", palette.ANY_IS_BAD, "Partitions without a leader.",
            "nobody can read or write these: bring back a broker with an in-sync replica.",
        ),
        one(
            "Below min ISR", "under_min_isr_partitions", palette.ANY_IS_BAD,
            "Partitions that refuse writes with acks=all.", "bring back the missing replicas.",
        ),
        one(
            "At min ISR", "at_min_isr_partitions", palette.ANY_IS_WATCHED,
            "Partitions that cannot lose another replica without refusing writes.", "It is never red.", NO_JMX,
        ),
        one(
            "Fenced brokers", "fenced_brokers", palette.ANY_IS_BAD,
            "Brokers the controller has shut out.", "their heartbeats do not reach the controller.", NO_JMX,
        ),
        one(
            "Disagreements", "disagreements", palette.ANY_IS_WATCHED,
            "Things that JMX and the Kafka API tell differently for more than two polls.", "It is never red.", NO_JMX,
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
        means="One row for each broker; 1 means yes. Dashes: not told, mostly for want of JMX.",
        red="Registered 0: the broker is down. Missing from ISR: its replicas are behind, or it is gone.",
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
        means="The lowest of each window. 100 % is a broker with nothing to do.",
        red="below 10 %: the broker cannot take more. Spread leaders, add brokers or threads.",
        no_data=NO_JMX,
    )


def _bytes() -> Panel:
    return lines_panel(
        "Bytes a second in and out",
        [
            _lines("bytes_in_rate", f"in, {_BROKER}"),
            _lines("bytes_out_rate", f"out, {_BROKER}", dashed=True),
        ],
        unit="Bps",
        means="What producers wrote and consumers read, without copies between brokers.",
        no_data=NO_JMX,
    )


def _requests() -> Panel:
    text = flux.windows(BROKER_REQUEST, "rate", ["broker", "request"], _REQUESTS, then=flux.summed(["request"]))
    return lines_panel(
        "Requests a second, by kind",
        [Line(text, "${__field.labels.request}")],
        unit="reqps",
        means="Over the chosen brokers. FetchConsumer rising without more bytes: consumers poll in vain.",
        no_data=NO_JMX,
    )


def _parts() -> Panel:
    def part(field: str, name: str) -> Line:
        return Line(
            flux.windows(BROKER_REQUEST, field, ["broker", "request"], _REQUESTS, then=flux.summed([], "mean")), name
        )

    return lines_panel(
        "Mean time of a request, by part",
        [part(field, name) for field, name in _PARTS.items()],
        unit="ms",
        stacked=True,
        means="Mean over the chosen brokers and kinds; choose one kind above to read it as that kind's time. "
        "The thickest part says what to look at: handlers, the leader's disk, followers, a quota, or the network.",
        no_data=NO_JMX,
    )


def _slowest() -> Panel:
    text = flux.windows(
        BROKER_REQUEST, "total_p99_ms", ["broker", "request"], _REQUESTS, fn="max", then=flux.summed(["request"], "max")
    )
    return lines_panel(
        "99th percentile of the whole time, by kind",
        [Line(text, "${__field.labels.request}")],
        unit="ms",
        means="The slowest of the chosen brokers. Fetches wait for data by design: their time is no alarm.",
        no_data=NO_JMX,
    )


def _isr() -> Panel:
    return lines_panel(
        "Replicas that fell out of sync and came back, a second",
        [
            _lines("isr_shrink_rate", f"out, {_BROKER}", fn="max"),
            _lines("isr_expand_rate", f"back, {_BROKER}", fn="max", dashed=True),
        ],
        unit="none",
        means="Both near zero is right. A restart makes one pair; pairs again and again are a slow disk or network.",
        no_data=NO_JMX,
    )


def _under_replicated() -> Panel:
    return lines_panel(
        "Replicas missing from the ISR, by broker",
        [_lines("missing_from_isr", fn="max")],
        means="The replicas each broker holds that are out of sync. One broker alone: that broker. All: the network.",
    )


def _ratio() -> Panel:
    return lines_panel(
        "Balance: share of leaders and of incoming bytes, over the mean",
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
        means="Where the broker tells (Kafka 3.3 and later). A line that falls straight says when the disk is full.",
    )


def _jvm() -> list[Panel]:
    def one(title: str, lines: Sequence[Line], unit: str, means: str, most: float | None = None) -> Panel:
        return lines_panel(title, lines, unit=unit, means=means, maximum=most, width=6, no_data=NO_JMX)

    return [
        one(
            "Java heap in use", [_lines("heap_used_bytes", fn="max")], "bytes",
            "A saw is normal; a saw whose teeth stand ever higher is a leak.",
        ),
        one(
            "Share of time collecting garbage", [_lines("gc_share", fn="max")], "percentunit",
            "Above 5 % for long: the heap is too small.",
        ),
        one("Processors used", [_lines("cpu_cores")], "none", "Cores each broker used."),
        one(
            "Open files and sockets", [_lines("open_file_descriptors", fn="max")], "short",
            "Compare with the limit of the process.",
        ),
    ]  # fmt: skip


def _quorum() -> list[Panel]:
    return [
        lines_panel(
            "Records the slowest voter is behind",
            [Line(flux.windows(CLUSTER, "quorum_max_lag", ["cluster"], _CLUSTER, fn="max"), "records")],
            width=6,
            means="Near zero is right. It grows when a controller is down.",
        ),
        lines_panel(
            "Epoch of the quorum",
            [Line(flux.windows(CLUSTER, "quorum_epoch", ["cluster"], _CLUSTER, fn="max"), "epoch")],
            width=6,
            minimum=None,
            means="Each step is an election of a controller. Steps again and again: controllers lose each other.",
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
            "Metadata applied, behind by",
            [_lines("metadata_lag_ms", fn="max")],
            unit="ms",
            width=6,
            means="How far the metadata each broker acts by is behind.",
            no_data=NO_JMX,
        ),
    ]
