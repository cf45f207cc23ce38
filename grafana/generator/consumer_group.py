"""The dashboard of a consumer group: status and reason, lag, rates, forecasts, partitions and members."""

from __future__ import annotations

from grafana.generator import flux, palette
from grafana.generator.boards import Board, Row, Variable, cell, link
from grafana.generator.panels import (
    NEVER_RED,
    NO_DATA,
    Line,
    Panel,
    heat_panel,
    lines_panel,
    link_override,
    stat_panel,
    status_override,
    table_panel,
    timeline_panel,
    unit_override,
    width_override,
)
from lagwatch.catalogue import CLUSTER, CONSUMER_GROUP, CONSUMER_LAG, GROUP_MEMBER

_GROUP = flux.chosen("cluster", "group")
_PARTITIONS = flux.chosen("cluster", "group", "topic")
_OF_PARTITION = "${__field.labels.topic}/${__field.labels.partition}"


def consumer_group() -> Board:
    """The dashboard; the topic variable filters the panels about partitions."""
    return Board(
        "consumer-group",
        "Consumer group",
        "One group: status and why, lag in messages and in time, rates, forecasts, partitions and members.",
        (
            Variable("cluster", "Cluster", CLUSTER),
            Variable("group", "Group", CONSUMER_GROUP, ("cluster",)),
            Variable("topic", "Topic", CONSUMER_LAG, ("cluster", "group"), several=True),
        ),
        (
            Row("Now", [_status(), *_numbers(), _why()]),
            Row("Over time", [_timeline(), _time_lag(), _lag(), _rates(), _forecast()]),
            Row("Partitions", [_heat(), _partition_status(), _partitions()]),
            Row("Members", [_members_over_time(), _members()]),
        ),
        event_tags=("cluster", "group"),
    )


def _row(field: str, *more: str) -> str:
    """The group's newest value; -1 where the row is stale."""
    return flux.newest_rows(
        CONSUMER_GROUP,
        ["stale", field],
        ["cluster", "group"],
        _GROUP,
        then=[
            f"filter(fn: (r) => exists r.{field})",
            flux.columns(
                "_time: r._time",
                f"_value: if r.stale or {flux.IS_OLD} then {palette.NOT_KNOWN_NOW}.0 else float(v: r.{field})",
            ),
            *more,
        ],
    )


def _status() -> Panel:
    text = flux.newest_rows(
        CONSUMER_GROUP,
        ["status", "stale"],
        ["cluster", "group"],
        _GROUP,
        then=[flux.columns("_time: r._time", f"_value: {flux.shown_status()}")],
    )
    return stat_panel(
        "Status",
        text,
        mappings=palette.status_mappings(),
        means="The current status of the group. STALE: the last status that could be evaluated.",
        red="read Why beside it.",
        width=4,
    )


def _numbers() -> list[Panel]:
    def one(
        title: str, field: str, unit: str, steps: palette.Steps, means: str, red: str, no_data: str = NO_DATA
    ) -> Panel:
        return stat_panel(title, _row(field), unit=unit, steps=steps, means=means, red=red, width=4, no_data=no_data)

    return [
        one(
            "Lag (messages)", "total_lag", "locale", palette.NO_COLOUR,
            "Unread messages of all partitions.", NEVER_RED,
        ),
        one(
            "Time lag", "max_lag_seconds", "s", palette.rising(60, 600),
            "Age of the oldest message the group has not read.",
            "what the group has processed is this far behind. Compare the rates, then look at the partitions.",
            "no time lag: none was estimated for this group in the last 25 minutes",
        ),
        one(
            "Caught up in", "catch_up_seconds", "s", palette.rising(900, 3600),
            "Time until the lag is zero at the current rates.",
            "more than an hour: add consumers, or find what slows them down.",
            "no forecast: the group has no lag, or never catches up at these rates (see Why)",
        ),
        one(
            "Unread messages are deleted in", "loss_seconds", "s", palette.falling(3600, 86400),
            "Time until retention deletes messages that the group has not read.",
            "less than an hour: raise retention.ms of the topic now, then fix the consumer.",
            "no forecast of a loss: retention does not reach what is unread at these rates, or the rates are not known",
        ),
        one(
            "Messages lost", "lost_messages", "locale", palette.ANY_IS_BAD,
            "Messages retention deleted before the group read them.",
            "the group cannot read them any more; restore them from their origin if they matter.",
        ),
    ]  # fmt: skip


def _why() -> Panel:
    text = flux.newest_rows(
        CONSUMER_GROUP,
        ["stale", "state", "why", "members", "not_ok_partitions", "rebalances", "age_seconds"],
        ["cluster", "group"],
        _GROUP,
        then=[
            flux.columns(
                "why: r.why",
                "state: r.state",
                "members: r.members",
                "bad: r.not_ok_partitions",
                "rebalances: r.rebalances",
                "age: r.age_seconds",
            )
        ],
    )
    return table_panel(
        "Why",
        text,
        {
            "why": "Why",
            "state": "State at its coordinator",
            "members": "Members",
            "bad": "Partitions not OK",
            "rebalances": "Rebalances",
            "age": "Stale for",
        },
        means="The rule and the numbers that decided the status, in one sentence.",
        red="State Empty with STOP: no consumer runs. State Stable with STALL: it runs without progress.",
        overrides={
            "Why": width_override(700),
            "Stale for": unit_override("s"),
            **{heading: unit_override("short") for heading in ("Members", "Partitions not OK", "Rebalances")},
        },
        height=4,
    )


def _timeline() -> Panel:
    return timeline_panel(
        "Status over time",
        flux.status_windows(CONSUMER_GROUP, ["group"], _GROUP),
        name="${__field.labels.group}",
        means="The worst status of each window. Grey-blue is stale; a gap means that nothing was recorded.",
        red="the annotations are status changes and rebalances: check which came first.",
        height=4,
    )


def _time_lag() -> Panel:
    def line(field: str, name: str, **overrides: str) -> Line:
        return Line(flux.windows(CONSUMER_GROUP, field, ["group"], _GROUP, fn="max"), name, **overrides)  # type: ignore[arg-type]

    return lines_panel(
        "Time lag with its bounds",
        [
            line("max_lag_seconds", "time lag", colour=palette.STALLED),
            line("max_lag_seconds_high", "at most", colour=palette.PLAIN, fill_to="at least"),
            line("max_lag_seconds_low", "at least", colour=palette.PLAIN),
        ],
        unit="s",
        steps=palette.rising(60, 600),
        means="Age of the oldest unread message. The true value is within the band; a wide band means little evidence.",
        red="above the dashed lines of a minute and of ten minutes.",
    )


def _lag() -> Panel:
    return lines_panel(
        "Lag in messages",
        [
            Line(flux.windows(CONSUMER_GROUP, "total_lag", ["group"], _GROUP, fn="max"), "all partitions"),
            Line(flux.windows(CONSUMER_GROUP, "max_lag", ["group"], _GROUP, fn="max"), "the worst partition"),
        ],
        unit="locale",
        means="Unread messages. Two lines close together: one partition has nearly all of the lag.",
    )


def _rates() -> Panel:
    return lines_panel(
        "Messages written and read per second",
        [
            Line(flux.windows(CONSUMER_GROUP, "produce_rate", ["group"], _GROUP), "written to its partitions"),
            Line(flux.windows(CONSUMER_GROUP, "consume_rate", ["group"], _GROUP), "read by the group"),
        ],
        unit="mps",
        means="Read below written: the group falls behind. Read at zero, written above: it makes no progress.",
    )


def _forecast() -> Panel:
    return lines_panel(
        "Forecast: caught up in, and unread messages deleted in",
        [
            Line(
                flux.windows(CONSUMER_GROUP, "catch_up_seconds", ["group"], _GROUP, fn="last"),
                "caught up in",
                palette.GOOD,
            ),
            Line(
                flux.windows(CONSUMER_GROUP, "loss_seconds", ["group"], _GROUP, fn="last"),
                "unread messages deleted in",
                palette.BAD,
            ),
        ],
        unit="s",
        means="At the rates at each time. No line: there is no lag, or no message will be deleted.",
        red="the red line below the green one: messages will be deleted before they are read.",
        no_data="no forecast: the group had no lag in this time, or there are no rates yet",
    )


def _heat() -> Panel:
    return heat_panel(
        "Lag by partition",
        flux.windows(CONSUMER_LAG, "lag", ["topic", "partition"], _PARTITIONS, fn="max"),
        name=_OF_PARTITION,
        unit="locale",
        means="One row per partition, darker for more unread messages.",
        red="one dark row: one partition or its consumer. All dark: the group as a whole.",
    )


def _partition_status() -> Panel:
    return timeline_panel(
        "Status by partition",
        flux.status_windows(CONSUMER_LAG, ["topic", "partition"], _PARTITIONS),
        name=_OF_PARTITION,
        means="The status of each partition over time.",
        red="the partitions that are not green cause the status of the group.",
        height=8,
    )


def _partitions() -> Panel:
    fields = ("lag", "stale", "status", "committed_offset", "lag_seconds", "seconds_since_moved", "lost_messages")
    text = flux.newest_rows(
        CONSUMER_LAG,
        fields,
        ["topic", "partition"],
        _PARTITIONS,
        then=[
            'sort(columns: ["lag"], desc: true)',
            "limit(n: 200)",
            flux.columns(
                "topic: r.topic",
                "partition: r.partition",
                f"status: {flux.shown_status()}",
                "lag: r.lag",
                "lag_seconds: r.lag_seconds",
                "still: r.seconds_since_moved",
                "committed: r.committed_offset",
                "lost: r.lost_messages",
            ),
        ],
    )
    return table_panel(
        "Partitions, largest lag first",
        text,
        {
            "topic": "Topic",
            "partition": "Partition",
            "status": "Status",
            "lag": "Lag (messages)",
            "lag_seconds": "Time lag",
            "still": "Has not moved for",
            "committed": "Committed offset",
            "lost": "Lost",
        },
        means="The 200 partitions with the largest lag.",
        red="a partition without progress while others move: its member hangs, or fails on one message.",
        overrides={
            "Topic": link_override(
                "Open the topic", link("topic", cluster="${cluster:percentencode}", topic=cell("Topic"))
            ),
            "Status": status_override(),
            "Time lag": unit_override("s"),
            "Has not moved for": unit_override("s"),
            "Lag (messages)": unit_override("locale"),
            "Committed offset": unit_override("none"),
            "Lost": unit_override("locale"),
        },
    )


def _members_over_time() -> Panel:
    return lines_panel(
        "Members and rebalances",
        [
            Line(flux.windows(CONSUMER_GROUP, "members", ["group"], _GROUP, fn="last"), "members"),
            Line(
                flux.windows(CONSUMER_GROUP, "empty_members", ["group"], _GROUP, fn="last"),
                "members without a partition",
            ),
            Line(flux.windows(CONSUMER_GROUP, "rebalances", ["group"], _GROUP, fn="max"), "rebalances"),
        ],
        means="Rebalances that keep rising while members join and leave: a consumer exceeds "
        "max.poll.interval.ms, or restarts repeatedly.",
        width=10,
    )


def _members() -> Panel:
    text = flux.newest_rows(
        GROUP_MEMBER,
        ["partitions", "client_id", "host", "assignment"],
        ["member"],
        _GROUP,
        then=[
            flux.columns(
                "client: r.client_id",
                "host: r.host",
                "partitions: r.partitions",
                "assignment: r.assignment",
                "member: r.member",
            ),
            "limit(n: 200)",
        ],
    )
    return table_panel(
        "Members of the last 25 minutes",
        text,
        {
            "client": "Client id",
            "host": "Host",
            "partitions": "Partitions",
            "assignment": "Assigned",
            "member": "Member id",
        },
        means="The members and their assignments. A member that left in this time is still listed.",
        overrides={"Assigned": width_override(300)},
        width=14,
        no_data="no members: the group is empty, assigns its own partitions, or the cluster does not report them",
    )
