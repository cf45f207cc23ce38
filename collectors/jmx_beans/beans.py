"""The beans lagwatch reads by default: a table of bean, attribute, field and aggregation.

Every field is in the catalogue, with its unit and meaning. A bean that a version or role lacks leaves its field null.
A name with * matches several beans, whose values are aggregated as the last column says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Aggregation(Enum):
    """How the values of beans become a field."""

    VALUE = "the value; of several beans the largest"
    SUM = "the sum over the beans"
    RATE = "the increase of a counter per second since the previous poll, summed over the beans"
    MEAN = "the mean of what a histogram recorded since the previous poll: Mean times Count, over Count"


class Role(Enum):
    """The nodes a bean is read on. Controllers register beans of brokers, too, for metadata: those would mislead."""

    ANY = ""
    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Bean:
    """One line of the table.

    `labels` pairs tags of the table with key properties of the bean. `scale` is a factor. `absent` are values by which
    Kafka means "no value". `only` limits the first label to these values.
    """

    bean: str
    attribute: str
    field: str
    how: Aggregation = Aggregation.VALUE
    role: Role = Role.BROKER
    table: str = "broker"
    labels: tuple[tuple[str, str], ...] = ()
    scale: float = 1
    absent: tuple[int, ...] = ()
    only: frozenset[str] = frozenset()


RATE, SUM, MEAN = Aggregation.RATE, Aggregation.SUM, Aggregation.MEAN
ANY, CONTROLLER = Role.ANY, Role.CONTROLLER

_REPLICAS = "kafka.server:type=ReplicaManager,name="
_FETCHER = "kafka.server:type=ReplicaFetcherManager,name={},clientId=Replica"
_TOPICS = "kafka.server:type=BrokerTopicMetrics,name="
_HANDLERS = "kafka.server:type=KafkaRequestHandlerPool,name="
_CHANNEL = "kafka.network:type=RequestChannel,name="
_PURGATORY = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation="
_SESSIONS = "kafka.server:type=FetchSessionCache,name="
_SOCKETS = "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"
_GROUPS = "kafka.server:type=group-coordinator-metrics"
_LOADER = "kafka.server:type=MetadataLoader,name="
_SNAPSHOT = "kafka.server:type=SnapshotEmitter,name="
_METADATA = "kafka.server:type=broker-metadata-metrics"
_RAFT = "kafka.server:type=raft-metrics"
_ACTIVE = "kafka.controller:type=KafkaController,name="
_ELECTIONS = "kafka.controller:type=ControllerStats,name="
_EVENTS = "kafka.controller:type=ControllerEventManager,name="
_OS = "java.lang:type=OperatingSystem"
_GC = "java.lang:type=GarbageCollector,*"

P99 = "99thPercentile"

# These two beans determine a node's roles, which the request handler idle ratio depends on: see values.py.
BROKER_ROLE_BEAN = "kafka.server:type=KafkaServer,name=BrokerState"
CONTROLLER_ROLE_BEAN = f"{_ACTIVE}ActiveControllerCount"
START_TIME = "started_ms"
IDLE_COMBINED, IDLE_OF_BROKER, IDLE_OF_CONTROLLER = (
    f"{_HANDLERS}{whose}RequestHandlerAvgIdlePercent" for whose in ("", "Broker", "Controller")
)
IDLE_RATE = "OneMinuteRate"

REPLICAS = (
    Bean(BROKER_ROLE_BEAN, "Value", "broker_state"),
    Bean("kafka.server:type=KafkaServer,name=ClusterId", "Value", "jmx_cluster_id"),
    Bean("kafka.server:type=ControllerServer,name=ClusterId", "Value", "jmx_cluster_id", role=CONTROLLER),
    Bean(f"{_REPLICAS}LeaderCount", "Value", "jmx_leaders"),
    Bean(f"{_REPLICAS}PartitionCount", "Value", "jmx_partitions"),
    Bean(f"{_REPLICAS}UnderReplicatedPartitions", "Value", "under_replicated_partitions"),
    Bean(f"{_REPLICAS}UnderMinIsrPartitionCount", "Value", "under_min_isr_partitions"),
    Bean(f"{_REPLICAS}AtMinIsrPartitionCount", "Value", "at_min_isr_partitions"),
    Bean(f"{_REPLICAS}OfflineReplicaCount", "Value", "offline_replicas"),
    Bean(f"{_REPLICAS}PartitionsWithLateTransactionsCount", "Value", "late_transaction_partitions"),
    Bean(f"{_REPLICAS}ReassigningPartitions", "Value", "reassigning_partitions"),
    Bean(f"{_REPLICAS}IsrShrinksPerSec", "Count", "isr_shrink_rate", RATE),
    Bean(f"{_REPLICAS}IsrExpandsPerSec", "Count", "isr_expand_rate", RATE),
    Bean(f"{_REPLICAS}FailedIsrUpdatesPerSec", "Count", "failed_isr_update_rate", RATE),
    Bean(_FETCHER.format("MaxLag"), "Value", "replica_max_lag"),
    Bean(_FETCHER.format("FailedPartitionsCount"), "Value", "failed_replica_partitions"),
    Bean(_FETCHER.format("DeadThreadCount"), "Value", "dead_replica_fetchers"),
)

TRAFFIC = (
    Bean(f"{_TOPICS}BytesInPerSec", "Count", "bytes_in_rate", RATE),
    Bean(f"{_TOPICS}BytesOutPerSec", "Count", "bytes_out_rate", RATE),
    Bean(f"{_TOPICS}MessagesInPerSec", "Count", "messages_in_rate", RATE),
    Bean(f"{_TOPICS}TotalProduceRequestsPerSec", "Count", "total_produce_rate", RATE),
    Bean(f"{_TOPICS}TotalFetchRequestsPerSec", "Count", "total_fetch_rate", RATE),
    Bean(f"{_TOPICS}FailedProduceRequestsPerSec", "Count", "failed_produce_rate", RATE),
    Bean(f"{_TOPICS}FailedFetchRequestsPerSec", "Count", "failed_fetch_rate", RATE),
)
BROKER_TRAFFIC = (
    Bean(f"{_TOPICS}ReplicationBytesInPerSec", "Count", "replication_bytes_in_rate", RATE),
    Bean(f"{_TOPICS}ReplicationBytesOutPerSec", "Count", "replication_bytes_out_rate", RATE),
    Bean(f"{_TOPICS}ReassignmentBytesInPerSec", "Count", "reassignment_bytes_in_rate", RATE),
    Bean(f"{_TOPICS}ReassignmentBytesOutPerSec", "Count", "reassignment_bytes_out_rate", RATE),
    Bean(f"{_TOPICS}BytesRejectedPerSec", "Count", "bytes_rejected_rate", RATE),
    Bean(f"{_TOPICS}InvalidMessageCrcRecordsPerSec", "Count", "invalid_crc_rate", RATE),
    Bean(f"{_TOPICS}InvalidMagicNumberRecordsPerSec", "Count", "invalid_magic_rate", RATE),
    Bean(f"{_TOPICS}InvalidOffsetOrSequenceRecordsPerSec", "Count", "invalid_sequence_rate", RATE),
    Bean(f"{_TOPICS}NoKeyCompactedTopicRecordsPerSec", "Count", "no_key_compacted_rate", RATE),
    Bean(f"{_TOPICS}RemoteCopyLagBytes", "Value", "remote_copy_lag_bytes"),
    Bean(f"{_TOPICS}RemoteCopyLagSegments", "Value", "remote_copy_lag_segments"),
)

LOAD = (
    # values.py computes request_handler_idle from these: a combined node of some versions counts it twice.
    Bean(IDLE_COMBINED, IDLE_RATE, "", role=ANY),
    Bean(IDLE_OF_BROKER, IDLE_RATE, "", role=ANY),
    Bean(IDLE_OF_CONTROLLER, IDLE_RATE, "", role=ANY),
    Bean("kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent", "Value", "network_processor_idle"),
    Bean(f"{_CHANNEL}RequestQueueSize", "Value", "request_queue_size"),
    Bean(f"{_CHANNEL}ResponseQueueSize", "Value", "response_queue_size"),
    Bean(f"{_PURGATORY}Produce", "Value", "produce_purgatory"),
    Bean(f"{_PURGATORY}Fetch", "Value", "fetch_purgatory"),
    Bean(f"{_SESSIONS}NumIncrementalFetchSessions", "Value", "fetch_sessions"),
    Bean(f"{_SESSIONS}IncrementalFetchSessionEvictionsPerSec", "Count", "fetch_session_eviction_rate", RATE),
    Bean(_SOCKETS, "connection-count", "connections", SUM),
    Bean(_SOCKETS, "connection-creation-rate", "connection_creation_rate", SUM),
    Bean(_SOCKETS, "failed-authentication-total", "failed_authentication_rate", RATE),
    # A quota applies to a user, a client id or both.
    *(
        Bean(f"kafka.server:type={kind},{whose}=*,*", "throttle-time", f"{kind.lower()}_throttle_ms")
        for kind in ("Produce", "Fetch", "Request")
        for whose in ("user", "client-id")
    ),
    # NumGroups counts only classic groups (measured on 4.3.1); the other protocols have counts of their own.
    Bean("kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups", "Value", "coordinated_groups", SUM),
    *(
        Bean(f"{_GROUPS},protocol={protocol}", "group-count", "coordinated_groups", SUM)
        for protocol in ("consumer", "share", "streams")
    ),
    Bean(_GROUPS, "offset-commit-rate", "offset_commit_rate"),
    Bean(_GROUPS, "group-completed-rebalance-rate", "rebalance_rate"),
    Bean(f"{_GROUPS},state=failed", "num-partitions", "failed_offset_partitions"),
)

DISKS = (
    Bean("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", P99, "log_flush_p99_ms"),
    Bean("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", "Count", "log_flush_rate", RATE),
    Bean("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", "Value", "offline_log_dirs"),
    Bean("kafka.log:type=LogCleaner,name=DeadThreadCount", "Value", "dead_cleaner_threads"),
    Bean(
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,*", "Value", "uncleanable_partitions", SUM
    ),
)

JVM = (
    Bean("java.lang:type=Memory", "HeapMemoryUsage.used", "heap_used_bytes", role=ANY),
    Bean("java.lang:type=Memory", "HeapMemoryUsage.max", "heap_max_bytes", role=ANY, absent=(-1,)),
    Bean(_GC, "CollectionTime", "gc_share", RATE, role=ANY, scale=1e-3, absent=(-1,)),
    Bean(_GC, "CollectionCount", "gc_rate", RATE, role=ANY, absent=(-1,)),
    Bean(_OS, "OpenFileDescriptorCount", "open_file_descriptors", role=ANY),
    Bean(_OS, "MaxFileDescriptorCount", "max_file_descriptors", role=ANY),
    Bean(_OS, "ProcessCpuLoad", "process_cpu_load", role=ANY, absent=(-1,)),
    Bean(_OS, "ProcessCpuTime", "cpu_cores", RATE, role=ANY, scale=1e-9, absent=(-1,)),
    Bean(_OS, "FreeSwapSpaceSize", "free_swap_bytes", role=ANY),
    Bean("java.lang:type=Threading", "ThreadCount", "threads", role=ANY),
    Bean("java.lang:type=Runtime", "Uptime", "uptime_seconds", role=ANY, scale=1e-3),
    Bean("java.lang:type=Runtime", "StartTime", START_TIME, role=ANY),
)

QUORUM = (
    Bean(_RAFT, "current-state", "raft_state", role=ANY),
    Bean(_RAFT, "current-leader", "raft_leader", role=ANY, absent=(-1,)),
    Bean(_RAFT, "current-vote", "raft_vote", role=ANY, absent=(-1,)),
    Bean(_RAFT, "current-epoch", "raft_epoch", role=ANY),
    Bean(_RAFT, "high-watermark", "raft_high_watermark", role=ANY, absent=(-1,)),
    Bean(_RAFT, "log-end-offset", "raft_log_end_offset", role=ANY),
    Bean(_RAFT, "commit-latency-avg", "raft_commit_latency_ms", role=ANY),
    Bean(_RAFT, "commit-latency-max", "raft_commit_latency_max_ms", role=ANY),
    Bean(_RAFT, "election-latency-avg", "raft_election_latency_ms", role=ANY),
    Bean(_RAFT, "election-latency-max", "raft_election_latency_max_ms", role=ANY),
    Bean(_RAFT, "fetch-records-rate", "raft_fetch_rate", role=ANY),
    Bean(_RAFT, "append-records-rate", "raft_append_rate", role=ANY),
    Bean(_RAFT, "poll-idle-ratio-avg", "raft_poll_idle", role=ANY),
    Bean(_RAFT, "number-of-voters", "raft_voters", role=ANY, absent=(-1,)),
    Bean(_RAFT, "number-of-observers", "raft_observers", role=ANY, absent=(-1,)),
    Bean(_RAFT, "uncommitted-voter-change", "raft_uncommitted_voter_change", role=ANY),
    Bean(f"{_LOADER}CurrentControllerId", "Value", "metadata_controller", role=ANY, absent=(-1,)),
    Bean(f"{_LOADER}CurrentMetadataVersion", "Value", "metadata_version", role=ANY),
    Bean(f"{_LOADER}HandleLoadSnapshotCount", "Value", "metadata_snapshot_loads", role=ANY),
    Bean(_METADATA, "last-applied-record-lag-ms", "metadata_lag_ms"),
    Bean(_METADATA, "last-applied-record-offset", "metadata_offset", absent=(-1,)),
    Bean(_METADATA, "metadata-load-error-count", "metadata_load_errors"),
    Bean(_METADATA, "metadata-apply-error-count", "metadata_apply_errors"),
    Bean(f"{_SNAPSHOT}LatestSnapshotGeneratedAgeMs", "Value", "snapshot_age_ms", role=ANY, absent=(-1,)),
    Bean(f"{_SNAPSHOT}LatestSnapshotGeneratedBytes", "Value", "snapshot_bytes", role=ANY, absent=(-1,)),
)

CONTROLLERS = (
    Bean(CONTROLLER_ROLE_BEAN, "Value", "active_controller", role=CONTROLLER),
    Bean(f"{_ACTIVE}OfflinePartitionsCount", "Value", "controller_offline_partitions", role=CONTROLLER),
    Bean(f"{_ACTIVE}FencedBrokerCount", "Value", "fenced_brokers", role=CONTROLLER),
    Bean(f"{_ACTIVE}ActiveBrokerCount", "Value", "active_brokers", role=CONTROLLER),
    Bean(f"{_ACTIVE}ControlledShutdownBrokerCount", "Value", "shutting_down_brokers", role=CONTROLLER),
    Bean(f"{_ACTIVE}PreferredReplicaImbalanceCount", "Value", "preferred_replica_imbalance", role=CONTROLLER),
    Bean(f"{_ACTIVE}GlobalTopicCount", "Value", "global_topics", role=CONTROLLER),
    Bean(f"{_ACTIVE}GlobalPartitionCount", "Value", "global_partitions", role=CONTROLLER),
    Bean(f"{_ELECTIONS}UncleanLeaderElectionsPerSec", "Count", "unclean_election_rate", RATE, role=CONTROLLER),
    Bean(
        f"{_ELECTIONS}ElectionFromEligibleLeaderReplicasPerSec",
        "Count",
        "eligible_election_rate",
        RATE,
        role=CONTROLLER,
    ),
    Bean(f"{_ACTIVE}TimedOutBrokerHeartbeatCount", "Value", "heartbeat_timeout_rate", RATE, role=CONTROLLER),
    Bean(f"{_ACTIVE}NewActiveControllersCount", "Value", "new_controllers", role=CONTROLLER),
    Bean(f"{_ACTIVE}MetadataErrorCount", "Value", "metadata_errors", role=CONTROLLER),
    Bean(f"{_ACTIVE}EventQueueOperationsTimedOutCount", "Value", "event_queue_timeout_rate", RATE, role=CONTROLLER),
    Bean(f"{_EVENTS}EventQueueTimeMs", P99, "event_queue_p99_ms", role=CONTROLLER),
    Bean(f"{_EVENTS}EventQueueProcessingTimeMs", P99, "event_processing_p99_ms", role=CONTROLLER),
    Bean(f"{_EVENTS}AvgIdleRatio", "Value", "event_idle", role=CONTROLLER),
    Bean(f"{_ACTIVE}LastAppliedRecordLagMs", "Value", "controller_lag_ms", role=CONTROLLER),
    Bean(f"{_ACTIVE}LastAppliedRecordOffset", "Value", "controller_applied_offset", role=CONTROLLER, absent=(-1,)),
    Bean(f"{_ACTIVE}LastCommittedRecordOffset", "Value", "controller_committed_offset", role=CONTROLLER, absent=(-1,)),
    # The active controller has this for each broker: it goes into that broker's row.
    Bean(
        f"{_ACTIVE}TimeSinceLastHeartbeatReceivedMs,broker=*",
        "Value",
        "heartbeat_age_ms",
        role=CONTROLLER,
        labels=(("broker", "broker"),),
    ),
)

REQUESTS = (
    "Produce", "FetchConsumer", "FetchFollower", "Metadata", "OffsetCommit", "OffsetFetch", "JoinGroup", "Heartbeat",
    "ConsumerGroupHeartbeat", "ListOffsets",
)  # fmt: skip
_PARTS = {
    "total": "TotalTimeMs",
    "queue": "RequestQueueTimeMs",
    "local": "LocalTimeMs",
    "remote": "RemoteTimeMs",
    "throttle": "ThrottleTimeMs",
    "response_queue": "ResponseQueueTimeMs",
    "response_send": "ResponseSendTimeMs",
}


def request_beans(requests: Sequence[str] = REQUESTS) -> tuple[Bean, ...]:
    """Beans for the rates of these requests and the parts of their time."""
    name, label, only = "kafka.network:type=RequestMetrics,name=", (("request", "request"),), frozenset(requests)

    def bean(which: str, attribute: str, field: str, how: Aggregation = Aggregation.VALUE) -> Bean:
        return Bean(f"{name}{which}", attribute, field, how, table="broker_request", labels=label, only=only)

    times = [
        line
        for part, its_name in _PARTS.items()
        for request in requests
        for line in (
            bean(f"{its_name},request={request}", "Mean", f"{part}_mean_ms", MEAN),
            bean(f"{its_name},request={request}", P99, f"{part}_p99_ms"),
        )
    ]
    counts = [bean("RequestsPerSec,*", "Count", "rate", RATE), bean("ErrorsPerSec,*", "Count", "error_rate", RATE)]
    return (*counts, *times)


def topic_beans() -> tuple[Bean, ...]:
    """Beans for traffic by topic, off by default; a bean appears once its topic has traffic."""
    label = (("topic", "topic"),)
    return tuple(
        Bean(f"{bean.bean},topic=*", bean.attribute, bean.field, bean.how, table="topic", labels=label)
        for bean in TRAFFIC
    )


DEFAULT_BEANS = (
    *REPLICAS, *TRAFFIC, *BROKER_TRAFFIC, *LOAD, *DISKS, *JVM, *QUORUM, *CONTROLLERS, *request_beans(),
)  # fmt: skip
