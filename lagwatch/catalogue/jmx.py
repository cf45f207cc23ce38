"""The fields that JMX adds to brokers, clusters and topics, and the balance between brokers.

A row of `broker` is a broker, a controller or both: a node has only the fields of its roles. Rates are differences of
counters between two polls: a missed poll makes a longer average, and a restart omits the rate once.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagwatch.catalogue.model import Field, Kind, Table, Tag
from lagwatch.catalogue.shared import BROKER_TAG, CLUSTER_TAG
from lagwatch.catalogue.volume import Cadence, Cost, InfluxDefaults, Volume

REQUESTS_PER_BROKER = 10  # kinds of request that a broker usually handles


def _count(name: str, meaning: str, unit: str = "") -> Field:
    return Field(name, Kind.INT, f"{meaning}.", unit)


def _value(name: str, meaning: str, unit: str = "") -> Field:
    return Field(name, Kind.FLOAT, f"{meaning}.", unit)


def _rate(name: str, what: str, unit: str) -> Field:
    return Field(name, Kind.FLOAT, f"{what} per second, since the previous poll.", f"{unit}/s")


BALANCE = (
    _value("leaders_ratio", "Ratio of leaders to the mean of the registered brokers", "ratio"),
    _value("partitions_ratio", "Ratio of replicas to the mean of the registered brokers", "ratio"),
    _value("size_ratio", "Ratio of size_bytes to the mean of the brokers that report it", "ratio"),
    _value("bytes_in_ratio", "Ratio of bytes_in_rate to the mean of the brokers that report it", "ratio"),
    _value("bytes_out_ratio", "Ratio of bytes_out_rate to the mean of the brokers that report it", "ratio"),
    _value(
        "preferred_leader_imbalance",
        "Of the partitions whose preferred leader is this broker, the share that it does not lead",
        "share",
    ),
)

NODE = (
    Field("roles", Kind.TEXT, "Roles of the node: broker, controller or broker,controller."),
    Field("jmx_cluster_id", Kind.TEXT, "Cluster id that the node reports."),
    _count("broker_state", "State that the broker reports: 3 is running"),
    _count("heartbeat_age_ms", "Time since the last heartbeat received by the active controller", "ms"),
)

REPLICAS = (
    _count("jmx_leaders", "Partitions that the broker leads, as it reports", "partitions"),
    _count("jmx_partitions", "Replicas on the broker, as it reports", "partitions"),
    _count("under_replicated_partitions", "Led partitions with a replica that is not in sync", "partitions"),
    _count(
        "under_min_isr_partitions", "Led partitions with fewer replicas in sync than min.insync.replicas", "partitions"
    ),
    _count("at_min_isr_partitions", "Led partitions with exactly min.insync.replicas in sync", "partitions"),
    _count("offline_replicas", "Replicas on failed log directories", "partitions"),
    _count("late_transaction_partitions", "Partitions with a transaction open past its timeout", "partitions"),
    _count("reassigning_partitions", "Led partitions that are being reassigned", "partitions"),
    _rate("isr_shrink_rate", "Replicas that left the ISR", "replicas"),
    _rate("isr_expand_rate", "Replicas that joined the ISR", "replicas"),
    _rate("failed_isr_update_rate", "ISR changes that the controller rejected", "changes"),
    _count("replica_max_lag", "Messages by which the slowest follower replica is behind", "messages"),
    _count("failed_replica_partitions", "Partitions whose replication failed", "partitions"),
    _count("dead_replica_fetchers", "Replica fetcher threads that died", "threads"),
)

TRAFFIC = (
    _rate("bytes_in_rate", "Bytes written by producers", "bytes"),
    _rate("bytes_out_rate", "Bytes read by consumers", "bytes"),
    _rate("messages_in_rate", "Messages written by producers", "messages"),
    _rate("total_produce_rate", "Produce requests", "requests"),
    _rate("total_fetch_rate", "Fetch requests", "requests"),
    _rate("failed_produce_rate", "Failed produce requests", "requests"),
    _rate("failed_fetch_rate", "Failed fetch requests", "requests"),
)

BROKER_TRAFFIC = (
    *TRAFFIC,
    _rate("replication_bytes_in_rate", "Bytes replicated from leaders", "bytes"),
    _rate("replication_bytes_out_rate", "Bytes replicated to followers", "bytes"),
    _rate("reassignment_bytes_in_rate", "Bytes replicated from leaders for reassignments", "bytes"),
    _rate("reassignment_bytes_out_rate", "Bytes replicated to followers for reassignments", "bytes"),
    _rate("bytes_rejected_rate", "Bytes of batches rejected as too large", "bytes"),
    _rate("invalid_crc_rate", "Records with a wrong checksum", "records"),
    _rate("invalid_magic_rate", "Records with an unknown format version", "records"),
    _rate("invalid_sequence_rate", "Records with a wrong offset or sequence number", "records"),
    _rate("no_key_compacted_rate", "Records without a key for compacted topics", "records"),
    _count("remote_copy_lag_bytes", "Bytes not yet copied to tiered storage", "bytes"),
    _count("remote_copy_lag_segments", "Segments not yet copied to tiered storage", "segments"),
)

LOAD = (
    _value(
        "request_handler_idle", "Share of time that the request handlers are idle; 0 to 1 on every version", "share"
    ),
    _value("network_processor_idle", "Share of time that the network threads are idle", "share"),
    _count("request_queue_size", "Requests waiting for a handler", "requests"),
    _count("response_queue_size", "Responses waiting for a network thread", "responses"),
    _count("produce_purgatory", "Produce requests waiting for replicas", "requests"),
    _count("fetch_purgatory", "Fetch requests waiting for data", "requests"),
    _count("fetch_sessions", "Incremental fetch sessions in the cache", "sessions"),
    _rate("fetch_session_eviction_rate", "Fetch sessions evicted from the cache", "sessions"),
    _count("connections", "Open connections on all listeners", "connections"),
    _value("connection_creation_rate", "Connections opened per second, Kafka's own average", "connections/s"),
    _rate("failed_authentication_rate", "Failed authentications", "logins"),
    _value("produce_throttle_ms", "Longest produce throttle of a quota", "ms"),
    _value("fetch_throttle_ms", "Longest fetch throttle of a quota", "ms"),
    _value("request_throttle_ms", "Longest request throttle of a quota", "ms"),
    _count("coordinated_groups", "Groups that the broker coordinates", "groups"),
    _value("offset_commit_rate", "Offset commits per second, Kafka's own average", "commits/s"),
    _value("rebalance_rate", "Completed rebalances of classic groups per second, Kafka's own average", "rebalances/s"),
    _count("failed_offset_partitions", "Partitions of the offsets topic that failed to load", "partitions"),
)

DISKS = (
    _value("log_flush_p99_ms", "99th percentile of log flush time", "ms"),
    _rate("log_flush_rate", "Log flushes", "flushes"),
    _count("offline_log_dirs", "Failed log directories", "dirs"),
    _count("dead_cleaner_threads", "Log cleaner threads that died", "threads"),
    _count("uncleanable_partitions", "Partitions that the log cleaner gave up on", "partitions"),
)

JVM = (
    _count("heap_used_bytes", "Java heap in use", "bytes"),
    _count("heap_max_bytes", "Limit of the Java heap", "bytes"),
    _value("gc_share", "Share of wall time spent in garbage collection since the previous poll", "share"),
    _rate("gc_rate", "Garbage collections", "collections"),
    _value("gc_mean_ms", "Mean duration of a garbage collection since the previous poll", "ms"),
    _count("open_file_descriptors", "Open files and sockets", "files"),
    _count("max_file_descriptors", "Limit of open files and sockets", "files"),
    _value("process_cpu_load", "Share of the host's CPU used by the JVM, as it reports", "share"),
    _value("cpu_cores", "Processors used since the previous poll", "cores"),
    _count("free_swap_bytes", "Free swap space of the host", "bytes"),
    _count("threads", "Live threads", "threads"),
    Field("uptime_seconds", Kind.SECONDS, "Time since the JVM started.", "s"),
    _count("started_ms", "Wall time at which the JVM started; a change means a restart", "ms"),
)

QUORUM = (
    Field("raft_state", Kind.TEXT, "Raft state: leader, follower, observer, candidate, ..."),
    _count("raft_leader", "Current or last known leader of the quorum, as the node reports it", "node id"),
    _count("raft_vote", "Node voted for in this epoch; absent when none", "node id"),
    _count("raft_epoch", "Quorum epoch that the node reports"),
    _count("raft_high_watermark", "High watermark of the metadata log", "offset"),
    _count("raft_log_end_offset", "End offset of the node's copy of the metadata log", "offset"),
    _value("raft_commit_latency_ms", "Mean time to commit a record of the metadata log", "ms"),
    _value("raft_commit_latency_max_ms", "Longest time to commit a record of the metadata log", "ms"),
    _value("raft_election_latency_ms", "Mean duration of an election", "ms"),
    _value("raft_election_latency_max_ms", "Longest duration of an election", "ms"),
    _value("raft_fetch_rate", "Records of the metadata log fetched per second, Kafka's own average", "records/s"),
    _value("raft_append_rate", "Records of the metadata log appended per second", "records/s"),
    _value("raft_poll_idle", "Share of time that the Raft thread is idle", "share"),
    _count("raft_voters", "Voters of the quorum; only on the leader", "nodes"),
    _count("raft_observers", "Observers of the quorum; only on the leader", "nodes"),
    _count("raft_uncommitted_voter_change", "1 while a change of voters is not committed; only on the leader"),
    _count("metadata_controller", "Active controller that the node reports; absent when it has none", "node id"),
    _count("metadata_version", "Metadata version (feature level) in use"),
    _count("metadata_lag_ms", "Time that the applied metadata is behind", "ms"),
    _count("metadata_offset", "Offset of the applied metadata", "offset"),
    _count("metadata_load_errors", "Errors while loading metadata", "errors"),
    _count("metadata_apply_errors", "Errors while applying metadata", "errors"),
    _count("metadata_snapshot_loads", "Metadata snapshots loaded", "snapshots"),
    _count("snapshot_age_ms", "Age of the newest metadata snapshot", "ms"),
    _count("snapshot_bytes", "Size of the newest metadata snapshot", "bytes"),
)

CONTROLLER = (
    _count("active_controller", "1 on the active controller, 0 on a standby, absent on other nodes"),
    _count("controller_offline_partitions", "Partitions without a leader, as this controller reports", "partitions"),
    _count("fenced_brokers", "Fenced brokers, as this controller reports", "brokers"),
    _count("active_brokers", "Active brokers, as this controller reports", "brokers"),
    _count("shutting_down_brokers", "Brokers in controlled shutdown, as this controller reports", "brokers"),
    _count("preferred_replica_imbalance", "Partitions whose leader is not the preferred replica", "partitions"),
    _count("global_topics", "Topics of the cluster", "topics"),
    _count("global_partitions", "Partitions of the cluster", "partitions"),
    _rate("unclean_election_rate", "Unclean leader elections (messages may be lost)", "elections"),
    _rate("eligible_election_rate", "Leader elections from eligible leader replicas (ELR)", "elections"),
    _rate("heartbeat_timeout_rate", "Broker heartbeats that timed out", "heartbeats"),
    _count("new_controllers", "Changes of the active controller since the node started", "changes"),
    _count("metadata_errors", "Metadata errors since the node started", "errors"),
    _rate("event_queue_timeout_rate", "Operations that timed out in the controller's event queue", "operations"),
    _value("event_queue_p99_ms", "99th percentile of the time an event waits in the controller's event queue", "ms"),
    _value("event_processing_p99_ms", "99th percentile of the time the controller takes to process an event", "ms"),
    _value("event_idle", "Share of time that the controller's event thread is idle", "share"),
    _count("controller_lag_ms", "Time that a standby is behind the active controller", "ms"),
    _count("controller_applied_offset", "Offset of the applied metadata", "offset"),
    _count("controller_committed_offset", "Offset of the committed metadata", "offset"),
)

BROKER_HEALTH = (
    *BALANCE, *NODE, *REPLICAS, *BROKER_TRAFFIC, *LOAD, *DISKS, *JVM, *QUORUM, *CONTROLLER,
)  # fmt: skip

CLUSTER_HEALTH = (
    _value("preferred_leader_imbalance", "Share of partitions whose leader is not the preferred replica", "share"),
    _count("overfull_brokers", "Brokers with more than 4,000 partitions", "brokers"),
    _count("oversized_partitions", "Watched partitions with a replica above 50 GB", "partitions"),
    _count(
        "jmx_under_replicated_partitions", "Under-replicated partitions, summed over the brokers' beans", "partitions"
    ),
    _count("jmx_under_min_isr_partitions", "Partitions under min-ISR, summed over the brokers' beans", "partitions"),
    _count("at_min_isr_partitions", "Partitions with exactly min.insync.replicas in sync", "partitions"),
    _count(
        "jmx_offline_partitions",
        "Partitions without a leader, the largest number of the controllers' beans",
        "partitions",
    ),
    _count(
        "jmx_active_controllers", "Active controllers, summed over the controllers' beans: 1 is healthy", "controllers"
    ),
    _count("fenced_brokers", "Fenced brokers, as the active controller reports", "brokers"),
    _count("active_brokers", "Active brokers, as the active controller reports", "brokers"),
    _rate("unclean_election_rate", "Unclean leader elections (messages may be lost)", "elections"),
    *TRAFFIC,
    _count(
        "disagreements", "Values that JMX and the Kafka API have reported differently for more than two polls", "values"
    ),
    Field("disagreement", Kind.TEXT, "The values that differ, in words."),
)

TOPIC_HEALTH = TRAFFIC

_PARTS = (
    ("total", "Total time"),
    ("queue", "Time waiting for a handler"),
    ("local", "Time processed by the leader"),
    ("remote", "Time waiting for followers or data"),
    ("throttle", "Time throttled by a quota"),
    ("response_queue", "Time the response waits for a network thread"),
    ("response_send", "Time to send the response"),
)


def _times(parts: Sequence[tuple[str, str]]) -> list[Field]:
    mean = [
        _value(f"{name}_mean_ms", f"{what}, mean of the requests since the previous poll", "ms") for name, what in parts
    ]
    p99 = [
        _value(f"{name}_p99_ms", f"{what}, 99th percentile weighted to recent requests", "ms") for name, what in parts
    ]
    return [field for pair in zip(mean, p99, strict=True) for field in pair]


BROKER_REQUEST = Table(
    "broker_request",
    "Rates and times of requests at a broker, from JMX.",
    (CLUSTER_TAG, BROKER_TAG, Tag("request", "Kind of request, such as Produce or FetchConsumer.")),
    (
        _rate("rate", "Requests of all versions", "requests"),
        _rate("error_rate", "Responses with any error", "responses"),
        *_times(_PARTS),
    ),
    volumes=(
        Volume(
            Cadence.JMX,
            lambda n: n.brokers * REQUESTS_PER_BROKER,
            Cost(batch=650, row=60),
            series=f"brokers x {REQUESTS_PER_BROKER} kinds of request; only with JMX",
        ),
    ),
    influx=InfluxDefaults(),
)
