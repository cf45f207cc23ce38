"""The overview dashboard: all clusters, their groups by status, the worst groups, and the sources that are down."""

from __future__ import annotations

from grafana.generator import flux, palette
from grafana.generator.boards import Board, Row, Variable, cell, link
from grafana.generator.panels import (
    Line,
    Panel,
    coloured_override,
    lines_panel,
    link_override,
    stat_panel,
    status_override,
    table_panel,
    unit_override,
    width_override,
)
from lagwatch.catalogue import BROKER, CLUSTER, CONSUMER_GROUP, SOURCE
from lagwatch.verdict.status import WORST_FIRST

_IN_CLUSTER = flux.chosen("cluster")
_COUNTED = tuple(status.name for status in sorted(WORST_FIRST))
_COLOURS = {name: colour for name, colour in palette.STATUS.values() if name in _COUNTED}
_GROUP_FIELDS = ("status", "stale", "total_lag", "max_lag_seconds", "catch_up_seconds", "falling_behind", "why")


def overview() -> Board:
    """The dashboard of all clusters."""
    return Board(
        "overview",
        "Overview",
        "All clusters: groups by status, the worst groups, brokers, controllers and replicas.",
        (Variable("cluster", "Cluster", CLUSTER, several=True),),
        (
            Row("Now", [_groups_by_status(), *_cluster_stats()]),
            Row("Worst first", [_worst_groups()]),
            Row("Clusters", [_clusters(), _down_sources()]),
            Row("Over time", _history()),
        ),
    )


def _groups_by_status() -> Panel:
    codes = {name: code for code, (name, _) in palette.STATUS.items()}
    counts = {name: ("0", f"so_far.{name} + (if r.shown == {codes[name]} then 1 else 0)") for name in _COUNTED}
    counts["STALE"] = ("0", f"so_far.STALE + (if r.shown >= {palette.STALE_ADDS} then 1 else 0)")
    text = flux.newest_rows(
        CONSUMER_GROUP,
        ["status", "stale"],
        ["cluster", "group"],
        _IN_CLUSTER,
        then=[
            flux.columns(f"shown: {flux.shown_status()}"),
            flux.reduced(counts),
        ],
    )
    return stat_panel(
        "Consumer groups by status",
        text,
        means="How many groups are in each status now. STALE: the last status is more than five minutes old, "
        "or the group could not be queried.",
        red="look at the table below, worst first. For STALE groups look at the sources that are down.",
        width=24,
        colours={**_COLOURS, "STALE": palette.STALE},
        text=True,
    )


def _cluster_stats() -> list[Panel]:
    def one(title: str, field: str, steps: palette.Steps, means: str, red: str) -> Panel:
        text = flux.newest(CLUSTER, field, ["cluster"], _IN_CLUSTER)
        return stat_panel(title, text, steps=steps, means=means, red=red, width=4, name="${__field.labels.cluster}")

    return [
        one(
            "Brokers listed",
            "brokers",
            falling_below_one(),
            "Brokers in each cluster's metadata.",
            "no broker is listed: the cluster is down or cannot be reached.",
        ),
        _missing_brokers(),
        one(
            "Active controllers",
            "active_controllers",
            palette.ONE_IS_RIGHT,
            "Controllers that are the quorum leader: exactly one is right.",
            "0: the quorum has no leader, so topics and leaders cannot change; look at the logs of the controllers. "
            "2: two nodes act as leader; look at the network between them.",
        ),
        one(
            "Under-replicated partitions",
            "under_replicated_partitions",
            palette.ANY_IS_BAD,
            "Partitions with a replica out of sync.",
            "see Suspect broker in the table of clusters: the out-of-sync replicas have it in common.",
        ),
        one(
            "Offline partitions",
            "offline_partitions",
            palette.ANY_IS_BAD,
            "Partitions without a leader: they cannot be read or written.",
            "bring back a broker that holds an in-sync replica.",
        ),
        one(
            "Partitions below min ISR",
            "under_min_isr_partitions",
            palette.ANY_IS_BAD,
            "Partitions with fewer replicas in sync than min.insync.replicas: writes with acks=all fail.",
            "producers get errors now; bring back the missing replicas.",
        ),
    ]


def falling_below_one() -> palette.Steps:
    """Thresholds where zero is bad."""
    return ((None, palette.BAD), (1, palette.GOOD))


def _missing_brokers() -> Panel:
    text = flux.newest(
        BROKER,
        "registered",
        ["cluster", "broker"],
        _IN_CLUSTER,
        then=flux.total(["cluster"], "if r._value == 0.0 then 1.0 else 0.0"),
    )
    return stat_panel(
        "Brokers missing",
        text,
        steps=palette.ANY_IS_BAD,
        means="Brokers that hold replicas but are not registered.",
        mappings=palette.sum_mappings(),
        red="the broker is down or cut off; its partitions are under-replicated until it is back.",
        width=4,
        name="${__field.labels.cluster}",
    )


def _worst_groups() -> Panel:
    text = flux.newest_rows(
        CONSUMER_GROUP,
        _GROUP_FIELDS,
        ["cluster", "group"],
        _IN_CLUSTER,
        then=[
            # What is absent would sort before everything that is known.
            (
                "map(fn: (r) => ({r with bad: if r.status > 1 then 1 else 0, "
                "behind: if exists r.max_lag_seconds then r.max_lag_seconds else -1.0, "
                "unread: if exists r.total_lag then r.total_lag else -1}))"
            ),
            'sort(columns: ["bad", "behind", "unread"], desc: true)',
            "limit(n: 50)",
            flux.columns(
                "cluster: r.cluster",
                "group: r.group",
                f"status: {flux.shown_status()}",
                "total_lag: r.total_lag",
                "max_lag_seconds: r.max_lag_seconds",
                "catch_up_seconds: r.catch_up_seconds",
                'falling_behind: if exists r.falling_behind and r.falling_behind then "never at this pace" else ""',
                "why: r.why",
            ),
        ],
    )
    return table_panel(
        "Worst groups: not OK first, then by time lag",
        text,
        {
            "cluster": "Cluster",
            "group": "Group",
            "status": "Status",
            "total_lag": "Lag (messages)",
            "max_lag_seconds": "Time lag",
            "catch_up_seconds": "Caught up in",
            "falling_behind": "Catches up",
            "why": "Why",
        },
        means="The 50 groups to look at first. Time lag is the age of the oldest unread message.",
        red="click the group. WARN and ERR say why in the last column; STOP: the consumer is gone; "
        "STALL: it commits but does not move; REWIND: its offsets went back.",
        overrides={
            "Group": link_override(
                "Open the group", link("consumer-group", cluster=cell("Cluster"), group=cell("Group"))
            ),
            "Status": status_override(),
            "Lag (messages)": unit_override("locale"),
            "Time lag": unit_override("s"),
            "Caught up in": unit_override("s"),
            "Why": width_override(600),
        },
        height=10,
    )


def _clusters() -> Panel:
    fields = {
        "brokers": "Brokers",
        "active_controllers": "Active controllers",
        "under_replicated_partitions": "Under-replicated",
        "offline_partitions": "Offline",
        "under_min_isr_partitions": "Below min ISR",
        "not_preferred_leader_partitions": "Not at preferred leader",
        "suspect_broker": "Suspect broker",
        "topics": "Topics",
        "partitions": "Partitions",
        "groups": "Groups",
    }
    return table_panel(
        "Clusters",
        flux.newest_columns(CLUSTER, list(fields), ["cluster"], _IN_CLUSTER, then=[_suspect_while_it_lasts()]),
        {"cluster": "Cluster", **fields},
        means="One row per cluster. STALE: the value is more than five minutes old.",
        red="click the cluster. The suspect is the broker that the out-of-sync replicas have in common.",
        overrides={
            "Cluster": link_override("Open the cluster", link("brokers", cluster=cell("Cluster"))),
            "Active controllers": coloured_override(palette.ONE_IS_RIGHT),
            **{
                heading: coloured_override(palette.ANY_IS_BAD)
                for heading in ("Under-replicated", "Offline", "Below min ISR")
            },
            **{heading: unit_override("short") for heading in ("Brokers", "Topics", "Partitions", "Groups")},
            "Not at preferred leader": unit_override("short"),
        },
        width=14,
        height=7,
    )


def _suspect_while_it_lasts() -> str:
    """A stage that clears an old suspect: after the broker is back rows have none, so the newest value would be outdated."""
    lasts = "exists r.suspect_broker and exists r.under_replicated_partitions and r.under_replicated_partitions > 0.0"
    return f'map(fn: (r) => ({{r with suspect_broker: if {lasts} then string(v: int(v: r.suspect_broker)) else ""}}))'


def _down_sources() -> Panel:
    text = flux.newest_rows(
        SOURCE,
        ["up", "error", "last_success_age_seconds"],
        ["cluster", "source", "target"],
        _IN_CLUSTER,
        then=[
            "filter(fn: (r) => not r.up)",
            flux.columns(
                "cluster: r.cluster",
                "source: r.source",
                'target: if exists r.target then r.target else "(whole source)"',
                "age: r.last_success_age_seconds",
                "error: r.error",
            ),
            "limit(n: 100)",
        ],
    )
    return table_panel(
        "Sources that are down, and why",
        text,
        {
            "cluster": "Cluster",
            "source": "Source",
            "target": "Target",
            "age": "Since last success",
            "error": "Why",
        },
        means="Sources that do not respond. Their values are shown as stale on all dashboards.",
        red="every row is a problem: the last column gives the reason.",
        overrides={"Since last success": unit_override("s"), "Why": width_override(400)},
        width=10,
        height=7,
        no_data="no source is down, or no data arrived at all (then the other panels are empty too)",
    )


def _history() -> list[Panel]:
    def by_status(field: str, name: str, colour: str) -> Line:
        text = flux.windows(CLUSTER, field, ["cluster"], _IN_CLUSTER, fn="max", then=flux.summed([]))
        return Line(text, name, colour)

    not_ok = [by_status(f"groups_{name.lower()}", name, colour) for name, colour in _COLOURS.items() if name != "OK"]
    stale = by_status("groups_stale", "STALE", palette.STALE)
    return [
        lines_panel(
            "Groups not OK, by status",
            [*not_ok, stale],
            stacked=True,
            narrowest="1m",  # clusters are polled at their own moments: a sum needs a point of each in every window
            means="How many groups were not OK, stacked by status; the maximum of each window.",
            red="the height is the number of groups in trouble.",
        ),
        lines_panel(
            "Under-replicated and offline partitions",
            [
                Line(
                    flux.windows(CLUSTER, "under_replicated_partitions", ["cluster"], _IN_CLUSTER, fn="max"),
                    "under-replicated, ${__field.labels.cluster}",
                ),
                Line(
                    flux.windows(CLUSTER, "offline_partitions", ["cluster"], _IN_CLUSTER, fn="max"),
                    "offline, ${__field.labels.cluster}",
                    dashed=True,
                ),
            ],
            means="The maximum of each window. A broker restart is a short peak; a plateau is a broker that stays down.",
        ),
        lines_panel(
            "Brokers listed",
            [
                Line(
                    flux.windows(CLUSTER, "brokers", ["cluster"], _IN_CLUSTER, fn="min"),
                    "${__field.labels.cluster}",
                )
            ],
            means="The minimum of each window.",
        ),
        lines_panel(
            "Lag of the slowest quorum voter (records)",
            [
                Line(
                    flux.windows(CLUSTER, "quorum_max_lag", ["cluster"], _IN_CLUSTER, fn="max"),
                    "${__field.labels.cluster}",
                )
            ],
            means="How many records the slowest voter of each controller quorum is behind its leader.",
        ),
    ]
