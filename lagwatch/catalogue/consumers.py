"""The tables about consumer groups."""

from __future__ import annotations

from lagwatch.catalogue.model import Field, Kind, Table, Tag
from lagwatch.catalogue.shared import CLUSTER_TAG, GROUP_TAG, PARTITION_TAG, STALE, TOPIC_TAG
from lagwatch.catalogue.volume import Cadence, Cost, InfluxDefaults, Volume

CONSUMER_LAG = Table(
    "consumer_lag",
    "Lag of a group on a partition.",
    (CLUSTER_TAG, GROUP_TAG, TOPIC_TAG, PARTITION_TAG),
    (
        Field("committed_offset", Kind.INT, "Committed offset: the next offset the group reads.", "offset"),
        Field("lag", Kind.INT, "Log end offset minus committed offset; 0 when negative.", "messages"),
        Field("seconds_since_moved", Kind.SECONDS, "Time since the committed offset last changed.", "s"),
        Field("lag_seconds", Kind.SECONDS, "Estimated age of the oldest unread message.", "s"),
        Field("lag_seconds_low", Kind.SECONDS, "Lower bound of the age of the oldest unread message.", "s"),
        Field("lag_seconds_high", Kind.SECONDS, "Upper bound of the age of the oldest unread message.", "s"),
        Field(
            "lag_source",
            Kind.INT,
            "Origin of lag_seconds: 0 nothing is unread, 1 recorded log ends, 2 a timestamp query.",
        ),
        Field("lost_messages", Kind.INT, "Messages that retention deleted before the group read them.", "messages"),
        Field(
            "unread_tail",
            Kind.INT,
            "Content before the log end where lag is at most 10: 0 records, 1 only transaction markers; absent where no "
            "broker was queried.",
        ),
        Field("status", Kind.INT, "Status: 1 OK, 2 WARN, 3 ERR (messages were lost), 4 STOP, 5 STALL, 6 REWIND."),
        Field("rule", Kind.INT, "Number of the rule that decided the status (docs/verdicts.md)."),
        Field("complete", Kind.FLOAT, "Share of the window that is filled.", "share"),
        Field(
            "abandoned",
            Kind.BOOL,
            "Whether the group is active but no member is assigned the topic: the status is not evaluated.",
        ),
        *STALE,
    ),
    volumes=(
        Volume(
            Cadence.KAFKA,
            lambda n: n.group_partitions,
            Cost(batch=900, row=9.7),
            series="groups x the partitions each commits to",
        ),
    ),
    influx=InfluxDefaults(
        every_seconds=30, choices=("all", "topic", "off"), choices_help="all, topic (sums by group and topic) or off"
    ),
)
CONSUMER_GROUP = Table(
    "consumer_group",
    "State and lag of a group: sums over its partitions.",
    (CLUSTER_TAG, GROUP_TAG),
    (
        Field("state", Kind.TEXT, "State in the coordinator's list: Stable, Empty, PreparingRebalance, ..."),
        Field("type", Kind.TEXT, "Group protocol: classic, consumer (KIP-848), share or streams."),
        Field("protocol_type", Kind.TEXT, "Protocol type of the members; empty for groups that only commit."),
        Field("coordinator", Kind.INT, "Broker that coordinates the group.", "broker id"),
        Field("members", Kind.INT, "Members of the group; absent when the cluster does not return them.", "members"),
        Field("empty_members", Kind.INT, "Members without an assigned partition.", "members"),
        Field("partitions", Kind.INT, "Partitions with a committed offset.", "partitions"),
        Field("total_lag", Kind.INT, "Sum of lag over the partitions whose lag is known.", "messages"),
        Field("max_lag", Kind.INT, "Largest lag of a partition.", "messages"),
        Field("unknown_lag_partitions", Kind.INT, "Partitions that total_lag does not cover.", "partitions"),
        Field("stale_partitions", Kind.INT, "Partitions whose lag is stale.", "partitions"),
        Field(
            "rebalances",
            Kind.INT,
            "Rebalances detected since the agent first polled the group; a lower bound.",
            "rebalances",
        ),
        Field(
            "status",
            Kind.INT,
            "Status: 1 OK, 2 WARN, 3 ERR, 4 STOP, 5 STALL, 6 REWIND; with `mode: burrow` only 1 to 3.",
        ),
        Field("status_text", Kind.TEXT, "Name of the status."),
        Field("why", Kind.TEXT, "The rule and the numbers that decided the status, in one sentence."),
        Field("complete", Kind.FLOAT, "Share of the partitions whose window is full.", "share"),
        Field("not_ok_partitions", Kind.INT, "Partitions whose status is worse than OK.", "partitions"),
        Field("abandoned_partitions", Kind.INT, "Partitions of topics that no member is assigned.", "partitions"),
        Field("lost_messages", Kind.INT, "Messages that retention deleted before the group read them.", "messages"),
        Field("max_lag_seconds", Kind.SECONDS, "Largest lag_seconds of a partition.", "s"),
        Field("max_lag_seconds_low", Kind.SECONDS, "Lower bound of the largest age of an unread message.", "s"),
        Field("max_lag_seconds_high", Kind.SECONDS, "Upper bound of the largest age of an unread message.", "s"),
        Field("consume_rate", Kind.FLOAT, "Messages per second that the committed offsets advance.", "messages/s"),
        Field("produce_rate", Kind.FLOAT, "Messages per second written to the partitions of the group.", "messages/s"),
        Field("catch_up_seconds", Kind.SECONDS, "Time until the lag is 0 at these rates; absent when never.", "s"),
        Field("falling_behind", Kind.BOOL, "Whether the group has lag and never catches up at these rates."),
        Field("loss_seconds", Kind.SECONDS, "Time until retention deletes unread messages; absent when never.", "s"),
        *STALE,
    ),
    volumes=(Volume(Cadence.KAFKA, lambda n: n.groups, Cost(batch=1200, row=25), series="groups"),),
    influx=InfluxDefaults(),
)
GROUP_MEMBER = Table(
    "group_member",
    "Members of a group; recorded when members or assignments change.",
    (CLUSTER_TAG, GROUP_TAG, Tag("member", "Member id.")),
    (
        Field("client_id", Kind.TEXT, "Client id of the member."),
        Field("host", Kind.TEXT, "Address from which the member connects."),
        Field("partitions", Kind.INT, "Partitions assigned to the member.", "partitions"),
        Field("assignment", Kind.TEXT, "Assignment of the member, as `topic:0-3,7 topic:1`."),
    ),
    volumes=(Volume(Cadence.CHANGES, lambda n: n.members, series="members"),),
    influx=InfluxDefaults(),
)
COMMIT = Table(
    "commit",
    "Single commits, read from the offsets topic; recorded where it may be read (`commits`).",
    (CLUSTER_TAG, GROUP_TAG, TOPIC_TAG, PARTITION_TAG),
    (
        Field(
            "committed_offset",
            Kind.INT,
            "Committed offset; absent for a deletion (empty topic and partition -1: the whole group).",
            "offset",
        ),
        Field("commit_time_ms", Kind.INT, "Wall time that the coordinator gave the commit or deletion.", "ms"),
        Field("order", Kind.INT, "Offset of the record in its partition of the offsets topic.", "offset"),
    ),
    volumes=(
        Volume(
            Cadence.COMMITS,
            lambda n: n.group_partitions,
            Cost(batch=400, row=5),
            series="groups x the partitions each commits to; where the offsets topic is read",
        ),
    ),
    # Commits of one poll share its timestamp in InfluxDB: only the last one of a partition remains.
    influx=InfluxDefaults(rows="off", choices_help="all (only the last of a partition in each poll) or off"),
)
CONSUMER_TOPIC = Table(
    "consumer_topic",
    "Lag of a group on a topic: sums over partitions, written to InfluxDB instead of rows per partition.",
    (CLUSTER_TAG, GROUP_TAG, TOPIC_TAG),
    (
        Field("partitions", Kind.INT, "Partitions with a committed offset.", "partitions"),
        Field("total_lag", Kind.INT, "Sum of lag over the partitions whose lag is known.", "messages"),
        Field("max_lag", Kind.INT, "Largest lag of a partition.", "messages"),
        Field("unknown_lag_partitions", Kind.INT, "Partitions that total_lag does not cover.", "partitions"),
        Field("stale_partitions", Kind.INT, "Partitions whose lag is stale.", "partitions"),
        Field("seconds_since_moved", Kind.SECONDS, "Time since any committed offset last changed.", "s"),
    ),
    volumes=(
        Volume(
            Cadence.KAFKA,
            lambda n: n.group_topics,
            series="groups x the topics each commits to; only where partitions are summed",
        ),
    ),
)
