"""The tables about consumer groups."""

from __future__ import annotations

from lagwatch.catalogue.model import Field, Kind, Table, Tag
from lagwatch.catalogue.shared import CLUSTER_TAG, GROUP_TAG, PARTITION_TAG, STALE, TOPIC_TAG

CONSUMER_LAG = Table(
    "consumer_lag",
    "How far one group is behind on one partition.",
    (CLUSTER_TAG, GROUP_TAG, TOPIC_TAG, PARTITION_TAG),
    (
        Field("committed_offset", Kind.INT, "next offset the group will read", "offset"),
        Field("lag", Kind.INT, "log end offset minus committed offset; below zero means zero", "messages"),
        Field("seconds_since_moved", Kind.SECONDS, "time since the committed offset was last seen to change", "s"),
        Field("lag_seconds", Kind.SECONDS, "age of the oldest message it has not read, as best known", "s"),
        Field("lag_seconds_low", Kind.SECONDS, "that age is at least this", "s"),
        Field("lag_seconds_high", Kind.SECONDS, "that age is at most this", "s"),
        Field(
            "lag_source",
            Kind.INT,
            "how lag_seconds is known: 0 nothing is unread, 1 from ends seen, 2 from times asked of the broker",
        ),
        Field("lost_messages", Kind.INT, "messages retention deleted before the group read them", "messages"),
        Field(
            "unread_tail",
            Kind.INT,
            "content before the log end where lag is at most 10: 0 records, 1 only transaction markers; "
            "absent where no broker was queried",
        ),
        Field("status", Kind.INT, "1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND; ERR (3) when messages were lost"),
        Field("rule", Kind.INT, "number of the rule that decided the status (docs/verdicts.md)"),
        Field("complete", Kind.FLOAT, "share of its window that is filled", "share"),
        Field("abandoned", Kind.BOOL, "the group is alive but no member is assigned the topic: shown, not judged"),
        *STALE,
    ),
)
CONSUMER_GROUP = Table(
    "consumer_group",
    "One consumer group, summed over its partitions.",
    (CLUSTER_TAG, GROUP_TAG),
    (
        Field("state", Kind.TEXT, "state as the coordinator lists it (Stable, Empty, PreparingRebalance, ...)"),
        Field("type", Kind.TEXT, "group protocol: classic, consumer (KIP-848), share, streams"),
        Field("protocol_type", Kind.TEXT, "what the members speak; empty for groups that only commit"),
        Field("coordinator", Kind.INT, "broker that coordinates the group", "broker id"),
        Field("members", Kind.INT, "members; absent when the cluster does not tell", "members"),
        Field("empty_members", Kind.INT, "members without any partition", "members"),
        Field("partitions", Kind.INT, "partitions with a committed offset", "partitions"),
        Field("total_lag", Kind.INT, "sum of lag over the partitions whose lag is known", "messages"),
        Field("max_lag", Kind.INT, "largest lag of one partition", "messages"),
        Field("unknown_lag_partitions", Kind.INT, "partitions that total_lag does not cover", "partitions"),
        Field("stale_partitions", Kind.INT, "partitions whose lag is the last known one", "partitions"),
        Field("rebalances", Kind.INT, "rebalances seen since the agent knows the group: a lower bound", "rebalances"),
        Field("status", Kind.INT, "1 OK, 2 WARN, 3 ERR, 4 STOP"),
        Field("status_text", Kind.TEXT, "the status by name"),
        Field("why", Kind.TEXT, "the rule and the numbers that decided the status, in one sentence"),
        Field("complete", Kind.FLOAT, "share of its partitions whose window is full", "share"),
        Field("not_ok_partitions", Kind.INT, "partitions whose status is worse than OK", "partitions"),
        Field("abandoned_partitions", Kind.INT, "partitions of topics no member is assigned", "partitions"),
        Field("lost_messages", Kind.INT, "messages retention deleted before the group read them", "messages"),
        Field("max_lag_seconds", Kind.SECONDS, "largest lag_seconds of a partition", "s"),
        Field("max_lag_seconds_low", Kind.SECONDS, "the largest age is at least this", "s"),
        Field("max_lag_seconds_high", Kind.SECONDS, "the largest age is at most this", "s"),
        Field("consume_rate", Kind.FLOAT, "messages its committed offsets advance in a second", "messages/s"),
        Field("produce_rate", Kind.FLOAT, "messages that arrive in a second on its partitions", "messages/s"),
        Field("catch_up_seconds", Kind.SECONDS, "time until its lag is gone at these rates; absent when never", "s"),
        Field("falling_behind", Kind.BOOL, "has lag and never catches up at these rates"),
        Field(
            "loss_seconds", Kind.SECONDS, "time until retention deletes what it has not read; absent when never", "s"
        ),
        *STALE,
    ),
)
GROUP_MEMBER = Table(
    "group_member",
    "One live member of a group; recorded when the group's members or assignments change.",
    (CLUSTER_TAG, GROUP_TAG, Tag("member", "member id")),
    (
        Field("client_id", Kind.TEXT, "client id of the member"),
        Field("host", Kind.TEXT, "address the member connects from"),
        Field("partitions", Kind.INT, "partitions assigned to it", "partitions"),
        Field("assignment", Kind.TEXT, "what is assigned to it, as `topic:0-3,7 topic:1`"),
    ),
)
COMMIT = Table(
    "commit",
    "One commit as it stands in the offsets topic; recorded only where `commits: topic` is set.",
    (CLUSTER_TAG, GROUP_TAG, TOPIC_TAG, PARTITION_TAG),
    (
        Field(
            "committed_offset",
            Kind.INT,
            "next offset the group will read; absent when the commit was deleted (topic empty, partition -1: the group)",
            "offset",
        ),
        Field("commit_time_ms", Kind.INT, "wall time the coordinator gave the commit or the deletion", "ms"),
        Field("order", Kind.INT, "position of the commit in its partition of the offsets topic", "offset"),
    ),
)
CONSUMER_TOPIC = Table(
    "consumer_topic",
    "One group on one topic, summed over partitions; made for InfluxDB where rows of partitions are too many.",
    (CLUSTER_TAG, GROUP_TAG, TOPIC_TAG),
    (
        Field("partitions", Kind.INT, "partitions with a committed offset", "partitions"),
        Field("total_lag", Kind.INT, "sum of lag over the partitions whose lag is known", "messages"),
        Field("max_lag", Kind.INT, "largest lag of one partition", "messages"),
        Field("unknown_lag_partitions", Kind.INT, "partitions that total_lag does not cover", "partitions"),
        Field("stale_partitions", Kind.INT, "partitions whose lag is the last known one", "partitions"),
        Field("seconds_since_moved", Kind.SECONDS, "time since any of its offsets was seen to change", "s"),
    ),
)
