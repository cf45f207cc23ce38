"""The dashboard of a topic: rates, sizes, skew between partitions, replicas, and the groups that read it."""

from __future__ import annotations

from grafana.generator import flux, palette
from grafana.generator.boards import Board, Row, Variable, cell, link
from grafana.generator.panels import (
    NO_JMX,
    Line,
    Panel,
    coloured_override,
    heat_panel,
    lines_panel,
    link_override,
    stat_panel,
    status_override,
    table_panel,
    unit_override,
)
from lagwatch.catalogue import CLUSTER, CONSUMER_LAG, TOPIC, TOPIC_PARTITION

_TOPIC = flux.chosen("cluster", "topic")
_A_SECOND = "derivative(unit: 1s, nonNegative: true)"
_OF_PARTITION = "partition ${__field.labels.partition}"


def topic() -> Board:
    """The dashboard of one topic."""
    return Board(
        "topic",
        "Topic",
        "One topic: rates, sizes, skew between partitions, replicas, and the groups that read it.",
        (Variable("cluster", "Cluster", CLUSTER), Variable("topic", "Topic", TOPIC, ("cluster",))),
        (
            Row("Now", _numbers()),
            Row("Rates", [_messages(), _bytes()]),
            Row("Size", [_size(), _partition_sizes()]),
            Row("Skew between partitions", [_skew(), _rate_heat(), _partitions()]),
            Row("Consumers", [_consumers(), _lag_by_group()]),
        ),
    )


def _numbers() -> list[Panel]:
    def setting(title: str, field: str, means: str, unit: str = "short") -> Panel:
        text = flux.newest(TOPIC, field, ["topic"], _TOPIC, back=flux.SLOW)
        return stat_panel(title, text, unit=unit, means=means, mappings=(), width=3)

    def counted(title: str, field: str, means: str, red: str) -> Panel:
        text = flux.newest(TOPIC_PARTITION, field, ["partition"], _TOPIC, then=flux.total([]))
        return stat_panel(
            title, text, steps=palette.ANY_IS_BAD, means=means, red=red, width=4, mappings=palette.sum_mappings()
        )

    return [
        setting("Partitions", "partitions", "Number of partitions."),
        setting("Replicas", "replication", "Replicas of its first partition."),
        setting("Min ISR", "min_isr", "min.insync.replicas: in-sync replicas below which writes with acks=all fail."),
        setting("Retention", "retention_ms", "retention.ms; -1 ms keeps messages for ever.", "ms"),
        counted(
            "Under-replicated partitions",
            "under_replicated",
            "Its partitions with a replica out of sync.",
            "look at the Overview for the suspect broker.",
        ),
        counted(
            "Offline partitions",
            "offline",
            "Its partitions without a leader.",
            "they cannot be read or written: bring back a broker with an in-sync replica.",
        ),
        counted(
            "Partitions below min ISR",
            "under_min_isr",
            "Its partitions that refuse writes with acks=all.",
            "producers get errors now: bring back the missing replicas.",
        ),
    ]


def _messages() -> Panel:
    ends = flux.windows(
        TOPIC_PARTITION,
        "log_end_offset",
        ["partition"],
        _TOPIC,
        fn="last",
        then=["filter(fn: (r) => exists r._value)", _A_SECOND, *flux.summed([])],
    )
    return lines_panel(
        "Messages written per second",
        [Line(ends, "messages")],
        unit="mps",
        means="Growth of the end offsets of all partitions.",
    )


def _bytes() -> Panel:
    return lines_panel(
        "Bytes written and read per second (JMX)",
        [
            Line(flux.windows(TOPIC, "bytes_in_rate", ["topic"], _TOPIC), "written by producers"),
            Line(flux.windows(TOPIC, "bytes_out_rate", ["topic"], _TOPIC), "read by consumers"),
        ],
        unit="Bps",
        means="Rates from the brokers. Read far above written is normal with several groups.",
        no_data=NO_JMX,
    )


def _size() -> Panel:
    return lines_panel(
        "Size on disk, all replicas",
        [Line(flux.windows(TOPIC, "size_bytes", ["topic"], _TOPIC, fn="max"), "bytes")],
        unit="bytes",
        means="A sawtooth is normal: retention deletes whole segments.",
    )


def _partition_sizes() -> Panel:
    return lines_panel(
        "Size of each partition",
        [Line(flux.windows(TOPIC_PARTITION, "size_bytes", ["partition"], _TOPIC, fn="max"), _OF_PARTITION)],
        unit="bytes",
        means="Bytes of the largest replica of each partition. One line far above the others: uneven keys.",
    )


def _skew() -> Panel:
    per_partition = flux.windows(
        TOPIC_PARTITION,
        "log_end_offset",
        ["partition"],
        _TOPIC,
        fn="last",
        then=[
            "filter(fn: (r) => exists r._value)",
            _A_SECOND,
            'group(columns: ["_time"])',
            flux.reduced(
                {
                    "most": ("0.0", flux.larger("r._value", "so_far.most")),
                    "all": ("0.0", "so_far.all + r._value"),
                    "count": ("0.0", "so_far.count + 1.0"),
                }
            ),
            "group()",
            "filter(fn: (r) => r.all > 0.0)",
            "map(fn: (r) => ({_time: r._time, _value: r.most * r.count / r.all}))",
            'sort(columns: ["_time"])',
        ],
    )
    return lines_panel(
        "Busiest partition compared with the mean",
        [Line(per_partition, "times the mean")],
        unit="none",
        steps=palette.rising(2, 4),
        means="1 is even. 3: the busiest partition gets three times the mean.",
        red="a few keys have most of the messages; choose another key, more partitions do not help.",
        no_data="no data: nothing was written to this topic in this time",
    )


def _rate_heat() -> Panel:
    text = flux.windows(
        TOPIC_PARTITION,
        "log_end_offset",
        ["partition"],
        _TOPIC,
        fn="last",
        then=["filter(fn: (r) => exists r._value)", _A_SECOND],
    )
    return heat_panel(
        "Messages per second by partition",
        text,
        name="${__field.labels.partition}",
        unit="mps",
        means="One row per partition, darker for a higher rate.",
        red="one dark row is a hot partition.",
        width=12,
    )


def _partitions() -> Panel:
    fields = ("log_end_offset", "log_start_offset", "leader", "in_sync_replicas", "replicas", "offline")
    text = flux.newest_rows(
        TOPIC_PARTITION,
        fields,
        ["partition"],
        _TOPIC,
        then=[
            flux.columns(
                "partition: int(v: r.partition)",
                "leader: r.leader",
                "in_sync: r.in_sync_replicas",
                "missing: r.replicas - r.in_sync_replicas",
                "messages: r.log_end_offset - r.log_start_offset",
                "end: r.log_end_offset",
            ),
            'sort(columns: ["partition"])',
            "limit(n: 500)",
        ],
    )
    return table_panel(
        "Partitions",
        text,
        {
            "partition": "Partition",
            "leader": "Leader",
            "in_sync": "In sync",
            "missing": "Replicas missing",
            "messages": "Messages kept",
            "end": "End offset",
        },
        means="Leader, replicas and offsets of each partition.",
        red="no leader: the partition is offline.",
        overrides={
            "Replicas missing": coloured_override(palette.ANY_IS_BAD),
            "Messages kept": unit_override("locale"),
            "End offset": unit_override("none"),
            **{heading: unit_override("none") for heading in ("Leader", "In sync")},
        },
        width=24,
    )


def _consumers() -> Panel:
    text = flux.newest_rows(
        CONSUMER_LAG,
        ["lag", "stale", "status", "lag_seconds"],
        ["group", "partition"],
        _TOPIC,
        then=[
            flux.columns(
                "group: r.group",
                "lag: r.lag",
                "seconds: if exists r.lag_seconds then float(v: r.lag_seconds) else -1.0",
                f"status: {flux.shown_status()}",
            ),
            # Worst first: what is wrong now, then what is stale, then what is well.
            (
                f"map(fn: (r) => ({{r with status: if r.status > 1 and r.status < {palette.STALE_ADDS} "
                "then r.status + 20 else r.status}))"
            ),
            'group(columns: ["group"])',
            flux.reduced(
                {
                    "lag": ("0", "so_far.lag + r.lag"),
                    "partitions": ("0", "so_far.partitions + 1"),
                    "seconds": ("-1.0", flux.larger("r.seconds", "so_far.seconds")),
                    "status": ("0", flux.larger("r.status", "so_far.status")),
                }
            ),
            "group()",
            (
                "map(fn: (r) => ({r with status: if r.status > 20 then r.status - 20 else r.status, "
                'seconds: if r.seconds < 0.0 then float(v: "NaN") else r.seconds}))'
            ),
            'sort(columns: ["lag"], desc: true)',
            "limit(n: 200)",
        ],
    )
    return table_panel(
        "Groups that read this topic",
        text,
        {
            "group": "Group",
            "status": "Worst partition",
            "lag": "Lag (messages)",
            "seconds": "Time lag",
            "partitions": "Partitions",
        },
        means="Lag and worst partition of each group on this topic.",
        red="click the group.",
        overrides={
            "Group": link_override(
                "Open the group", link("consumer-group", cluster="${cluster:percentencode}", group=cell("Group"))
            ),
            "Worst partition": status_override(),
            "Lag (messages)": unit_override("locale"),
            "Time lag": unit_override("s"),
            "Partitions": unit_override("short"),
        },
        width=12,
        no_data="no group has a committed offset on this topic",
    )


def _lag_by_group() -> Panel:
    text = flux.windows(CONSUMER_LAG, "lag", ["group", "partition"], _TOPIC, fn="max", then=flux.summed(["group"]))
    return lines_panel(
        "Lag of each group on this topic",
        [Line(text, "${__field.labels.group}")],
        unit="locale",
        means="Unread messages. All groups rise: more is written than usual. One rises: look at that group.",
        no_data="no group has a committed offset on this topic",
    )
