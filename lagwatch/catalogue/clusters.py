"""The tables about topics, brokers and clusters."""

from __future__ import annotations

from lagwatch.catalogue.jmx import BROKER_HEALTH, CLUSTER_HEALTH, TOPIC_HEALTH
from lagwatch.catalogue.model import Field, Kind, Table
from lagwatch.catalogue.shared import BROKER_TAG, CLUSTER_TAG, PARTITION_TAG, STALE, TOPIC_TAG

TOPIC_PARTITION = Table(
    "topic_partition",
    "One partition of a topic.",
    (CLUSTER_TAG, TOPIC_TAG, PARTITION_TAG),
    (
        Field("log_start_offset", Kind.INT, "oldest offset that can still be read", "offset"),
        Field("log_end_offset", Kind.INT, "offset the next record will get (the high watermark)", "offset"),
        Field(
            "last_stable_offset",
            Kind.INT,
            "where read_committed consumers stop: below the end while a transaction is open",
            "offset",
        ),
        Field("leader", Kind.INT, "broker that leads it; absent when nobody does", "broker id"),
        Field("replicas", Kind.INT, "replicas assigned", "replicas"),
        Field("in_sync_replicas", Kind.INT, "replicas in sync", "replicas"),
        Field("under_replicated", Kind.BOOL, "fewer replicas in sync than assigned"),
        Field("under_min_isr", Kind.BOOL, "fewer in sync than min.insync.replicas: acks=all writes are refused"),
        Field("offline", Kind.BOOL, "no leader: nobody can read or write"),
        Field("preferred_leader", Kind.BOOL, "led by the first of its replicas"),
        Field("size_bytes", Kind.INT, "bytes of its largest replica on disk", "bytes"),
        Field("messages_in_rate", Kind.FLOAT, "messages that arrive in a second, over the last polls", "messages/s"),
        *STALE,
    ),
)
TOPIC = Table(
    "topic",
    "One topic.",
    (CLUSTER_TAG, TOPIC_TAG),
    (
        Field("topic_id", Kind.TEXT, "id Kafka gives at creation; changes when the topic is created again"),
        Field("partitions", Kind.INT, "partitions", "partitions"),
        Field("replication", Kind.INT, "replicas of its first partition", "replicas"),
        Field("min_isr", Kind.INT, "min.insync.replicas", "replicas"),
        Field("retention_ms", Kind.INT, "retention.ms; -1 keeps for ever", "ms"),
        Field("retention_bytes", Kind.INT, "retention.bytes of a partition; -1 is no limit", "bytes"),
        Field("cleanup_policy", Kind.TEXT, "cleanup.policy: delete, compact, or both"),
        Field("timestamp_type", Kind.TEXT, "message.timestamp.type: CreateTime or LogAppendTime"),
        Field("size_bytes", Kind.INT, "bytes on disk over all replicas", "bytes"),
        *TOPIC_HEALTH,
    ),
)
BROKER = Table(
    "broker",
    "One broker.",
    (CLUSTER_TAG, BROKER_TAG),
    (
        Field("host", Kind.TEXT, "address it advertises"),
        Field("rack", Kind.TEXT, "its rack"),
        Field(
            "registered", Kind.BOOL, "listed by the cluster's metadata; false for one that only appears as a replica"
        ),
        Field("leaders", Kind.INT, "partitions it leads", "partitions"),
        Field("partitions", Kind.INT, "replicas it holds", "partitions"),
        Field("missing_from_isr", Kind.INT, "replicas it holds that are out of sync", "partitions"),
        Field("size_bytes", Kind.INT, "bytes of all its replicas", "bytes"),
        Field("disk_total_bytes", Kind.INT, "size of its log volumes, where the broker tells", "bytes"),
        Field("disk_free_bytes", Kind.INT, "free space of its log volumes, where the broker tells", "bytes"),
        Field("controller", Kind.BOOL, "leads the controller quorum"),
        *BROKER_HEALTH,
    ),
)
GROUPS_BY_STATUS = (
    *(
        Field(f"groups_{name}", Kind.INT, f"groups whose status is {name.upper()} and not stale", "groups")
        for name in ("ok", "warn", "err", "stop", "stall", "rewind")
    ),
    Field("groups_stale", Kind.INT, "groups that could not be asked in this poll", "groups"),
)
CLUSTER = Table(
    "cluster",
    "One cluster as a whole.",
    (CLUSTER_TAG,),
    (
        Field("cluster_id", Kind.TEXT, "id Kafka gives the cluster"),
        Field("brokers", Kind.INT, "brokers its metadata lists", "brokers"),
        Field("topics", Kind.INT, "topics watched", "topics"),
        Field("partitions", Kind.INT, "partitions watched", "partitions"),
        Field("groups", Kind.INT, "consumer groups watched", "groups"),
        Field("under_replicated_partitions", Kind.INT, "partitions with a replica out of sync", "partitions"),
        Field("offline_partitions", Kind.INT, "partitions without a leader", "partitions"),
        Field("under_min_isr_partitions", Kind.INT, "partitions below min.insync.replicas", "partitions"),
        Field("not_preferred_leader_partitions", Kind.INT, "partitions not led by their first replica", "partitions"),
        Field(
            "suspect_broker",
            Kind.INT,
            "the broker the missing replicas point at; absent unless they point at one",
            "broker id",
        ),
        Field(
            "active_controllers",
            Kind.INT,
            "controllers leading: 1 is right; 0 when the brokers know of none",
            "controllers",
        ),
        Field("controller", Kind.INT, "node that leads the controller quorum", "node id"),
        Field("quorum_epoch", Kind.INT, "epoch of the quorum's leader; grows with each election"),
        Field("quorum_voters", Kind.INT, "voters of the quorum", "nodes"),
        Field("quorum_max_lag", Kind.INT, "records the slowest voter is behind the leader", "records"),
        *GROUPS_BY_STATUS,
        *CLUSTER_HEALTH,
    ),
)
