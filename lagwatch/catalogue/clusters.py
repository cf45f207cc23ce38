"""The tables about topics, brokers and clusters."""

from __future__ import annotations

from lagwatch.catalogue.jmx import BROKER_HEALTH, CLUSTER_HEALTH, TOPIC_HEALTH
from lagwatch.catalogue.model import Field, Kind, Table
from lagwatch.catalogue.shared import BROKER_TAG, CLUSTER_TAG, PARTITION_TAG, STALE, TOPIC_TAG
from lagwatch.catalogue.volume import Cadence, Cost, InfluxDefaults, Volume

TOPIC_PARTITION = Table(
    "topic_partition",
    "Offsets and replicas of a partition.",
    (CLUSTER_TAG, TOPIC_TAG, PARTITION_TAG),
    (
        Field("log_start_offset", Kind.INT, "Oldest offset that can still be read.", "offset"),
        Field("log_end_offset", Kind.INT, "Offset of the next record: the high watermark.", "offset"),
        Field(
            "last_stable_offset",
            Kind.INT,
            "Offset up to which read_committed consumers read: below the end while a transaction is open.",
            "offset",
        ),
        Field("leader", Kind.INT, "Broker that leads the partition; absent when there is no leader.", "broker id"),
        Field("replicas", Kind.INT, "Assigned replicas.", "replicas"),
        Field("in_sync_replicas", Kind.INT, "Replicas in sync.", "replicas"),
        Field("under_replicated", Kind.BOOL, "Whether fewer replicas are in sync than assigned."),
        Field(
            "under_min_isr",
            Kind.BOOL,
            "Whether fewer replicas are in sync than min.insync.replicas: writes with acks=all fail.",
        ),
        Field("offline", Kind.BOOL, "Whether the partition has no leader: reads and writes fail."),
        Field("preferred_leader", Kind.BOOL, "Whether the leader is the preferred (first) replica."),
        Field("size_bytes", Kind.INT, "Size on disk of the largest replica.", "bytes"),
        Field("messages_in_rate", Kind.FLOAT, "Messages per second written, over the last polls.", "messages/s"),
        *STALE,
    ),
    volumes=(Volume(Cadence.KAFKA, lambda n: n.partitions, Cost(batch=650, row=21), series="partitions"),),
    influx=InfluxDefaults(every_seconds=30),
)
TOPIC = Table(
    "topic",
    "Settings, size and traffic of a topic.",
    (CLUSTER_TAG, TOPIC_TAG),
    (
        Field("topic_id", Kind.TEXT, "Topic id; changes when the topic is deleted and created again."),
        Field("partitions", Kind.INT, "Partitions of the topic.", "partitions"),
        Field("replication", Kind.INT, "Replicas of the first partition.", "replicas"),
        Field("min_isr", Kind.INT, "Setting min.insync.replicas.", "replicas"),
        Field("retention_ms", Kind.INT, "Setting retention.ms; -1 is no limit.", "ms"),
        Field("retention_bytes", Kind.INT, "Setting retention.bytes, per partition; -1 is no limit.", "bytes"),
        Field("cleanup_policy", Kind.TEXT, "Setting cleanup.policy: delete, compact or both."),
        Field("timestamp_type", Kind.TEXT, "Setting message.timestamp.type: CreateTime or LogAppendTime."),
        Field("size_bytes", Kind.INT, "Size on disk of all replicas.", "bytes"),
        *TOPIC_HEALTH,
    ),
    volumes=(Volume(Cadence.CONFIGS, lambda n: n.topics, Cost(batch=600, row=29), series="topics"),),
    influx=InfluxDefaults(),
)
BROKER = Table(
    "broker",
    "State and load of a broker or controller.",
    (CLUSTER_TAG, BROKER_TAG),
    (
        Field("host", Kind.TEXT, "Advertised address."),
        Field("rack", Kind.TEXT, "Rack of the broker."),
        Field(
            "registered",
            Kind.BOOL,
            "Whether the metadata lists the broker; false for one that appears only as a replica.",
        ),
        Field("leaders", Kind.INT, "Partitions that the broker leads.", "partitions"),
        Field("partitions", Kind.INT, "Replicas on the broker.", "partitions"),
        Field("missing_from_isr", Kind.INT, "Replicas on the broker that are not in sync.", "partitions"),
        Field("size_bytes", Kind.INT, "Size of all replicas on the broker.", "bytes"),
        Field(
            "disk_total_bytes", Kind.INT, "Size of the log volumes; absent when the broker does not report it.", "bytes"
        ),
        Field(
            "disk_free_bytes",
            Kind.INT,
            "Free space of the log volumes; absent when the broker does not report it.",
            "bytes",
        ),
        Field("controller", Kind.BOOL, "Whether the node leads the controller quorum."),
        *BROKER_HEALTH,
    ),
    volumes=(
        Volume(Cadence.KAFKA, lambda n: n.brokers, Cost(batch=570, row=30), series="brokers and controllers"),
        Volume(Cadence.JMX, lambda n: n.brokers + n.controllers, Cost(batch=3200, row=350)),  # some 115 columns
    ),
    influx=InfluxDefaults(),
)
GROUPS_BY_STATUS = (
    *(
        Field(f"groups_{name}", Kind.INT, f"Groups whose status is {name.upper()} and not stale.", "groups")
        for name in ("ok", "warn", "err", "stop", "stall", "rewind")
    ),
    Field("groups_stale", Kind.INT, "Groups whose offsets this poll could not fetch.", "groups"),
)
CLUSTER = Table(
    "cluster",
    "Totals of a cluster.",
    (CLUSTER_TAG,),
    (
        Field("cluster_id", Kind.TEXT, "Cluster id."),
        Field("brokers", Kind.INT, "Brokers in the metadata.", "brokers"),
        Field("topics", Kind.INT, "Watched topics.", "topics"),
        Field("partitions", Kind.INT, "Watched partitions.", "partitions"),
        Field("groups", Kind.INT, "Watched consumer groups.", "groups"),
        Field("under_replicated_partitions", Kind.INT, "Partitions with a replica that is not in sync.", "partitions"),
        Field("offline_partitions", Kind.INT, "Partitions without a leader.", "partitions"),
        Field(
            "under_min_isr_partitions",
            Kind.INT,
            "Partitions with fewer replicas in sync than min.insync.replicas.",
            "partitions",
        ),
        Field(
            "not_preferred_leader_partitions",
            Kind.INT,
            "Partitions whose leader is not the preferred replica.",
            "partitions",
        ),
        Field(
            "suspect_broker",
            Kind.INT,
            "Broker that explains the replicas out of sync; absent unless exactly one does.",
            "broker id",
        ),
        Field(
            "active_controllers",
            Kind.INT,
            "Active controllers: 1 is healthy, 0 when the brokers have none.",
            "controllers",
        ),
        Field("controller", Kind.INT, "Node that leads the controller quorum.", "node id"),
        Field("quorum_epoch", Kind.INT, "Leader epoch of the quorum; increases with each election."),
        Field("quorum_voters", Kind.INT, "Voters of the quorum.", "nodes"),
        Field("quorum_max_lag", Kind.INT, "Records by which the slowest voter is behind the leader.", "records"),
        *GROUPS_BY_STATUS,
        *CLUSTER_HEALTH,
    ),
    volumes=(Volume(Cadence.KAFKA, lambda _: 1, Cost(batch=650, row=0), series="1"),),
    influx=InfluxDefaults(),
)
