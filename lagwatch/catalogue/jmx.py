"""What JMX adds to the tables of brokers, clusters and topics, and how brokers compare with each other.

A broker's row also stands for a controller: a node has only the fields of the roles it plays. Rates are differences of
counters between two polls, so a missed poll makes them longer averages and a restart leaves them out once.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagwatch.catalogue.model import Field, Kind, Table, Tag
from lagwatch.catalogue.shared import BROKER_TAG, CLUSTER_TAG


def _count(name: str, meaning: str, unit: str = "") -> Field:
    return Field(name, Kind.INT, meaning, unit)


def _value(name: str, meaning: str, unit: str = "") -> Field:
    return Field(name, Kind.FLOAT, meaning, unit)


def _rate(name: str, what: str, unit: str) -> Field:
    return Field(name, Kind.FLOAT, f"{what} in a second, since the poll before", f"{unit}/s")


BALANCE = (
    _value("leaders_ratio", "leaders over the mean of the registered brokers", "ratio"),
    _value("partitions_ratio", "replicas over the mean of the registered brokers", "ratio"),
    _value("size_ratio", "bytes on disk over the mean of the brokers that told", "ratio"),
    _value("bytes_in_ratio", "bytes_in_rate over the mean of the brokers that told", "ratio"),
    _value("bytes_out_ratio", "bytes_out_rate over the mean of the brokers that told", "ratio"),
    _value("preferred_leader_imbalance", "share of the partitions that prefer it and that it does not lead", "share"),
)

NODE = (
    Field("roles", Kind.TEXT, "roles its beans show: broker, controller, or broker,controller"),
    Field("jmx_cluster_id", Kind.TEXT, "cluster id by its own account"),
    _count("broker_state", "state by its own account: 3 is running"),
    _count("heartbeat_age_ms", "time since the active controller last heard from it", "ms"),
)

REPLICAS = (
    _count("jmx_leaders", "partitions it leads, by its own account", "partitions"),
    _count("jmx_partitions", "replicas it holds, by its own account", "partitions"),
    _count("under_replicated_partitions", "partitions it leads with a replica out of sync", "partitions"),
    _count("under_min_isr_partitions", "partitions it leads below min.insync.replicas", "partitions"),
    _count("at_min_isr_partitions", "partitions it leads that cannot lose another replica", "partitions"),
    _count("offline_replicas", "its replicas on failed log dirs", "partitions"),
    _count("late_transaction_partitions", "partitions with a transaction open past its time-out", "partitions"),
    _count("reassigning_partitions", "partitions it leads that are being moved", "partitions"),
    _rate("isr_shrink_rate", "replicas that fell out of sync", "replicas"),
    _rate("isr_expand_rate", "replicas that came back in sync", "replicas"),
    _rate("failed_isr_update_rate", "changes of in-sync replicas the controller refused", "changes"),
    _count("replica_max_lag", "messages its slowest follower replica is behind", "messages"),
    _count("failed_replica_partitions", "partitions it could not go on copying", "partitions"),
    _count("dead_replica_fetchers", "threads that copy replicas and died", "threads"),
)

TRAFFIC = (
    _rate("bytes_in_rate", "bytes producers wrote", "bytes"),
    _rate("bytes_out_rate", "bytes consumers read", "bytes"),
    _rate("messages_in_rate", "messages producers wrote", "messages"),
    _rate("total_produce_rate", "produce requests", "requests"),
    _rate("total_fetch_rate", "fetch requests", "requests"),
    _rate("failed_produce_rate", "produce requests that failed", "requests"),
    _rate("failed_fetch_rate", "fetch requests that failed", "requests"),
)

BROKER_TRAFFIC = (
    *TRAFFIC,
    _rate("replication_bytes_in_rate", "bytes it copied from leaders", "bytes"),
    _rate("replication_bytes_out_rate", "bytes followers copied from it", "bytes"),
    _rate("reassignment_bytes_in_rate", "bytes it copied for reassignments", "bytes"),
    _rate("reassignment_bytes_out_rate", "bytes copied from it for reassignments", "bytes"),
    _rate("bytes_rejected_rate", "bytes of batches refused as too large", "bytes"),
    _rate("invalid_crc_rate", "records with a wrong checksum", "records"),
    _rate("invalid_magic_rate", "records of an unknown format", "records"),
    _rate("invalid_sequence_rate", "records with a wrong offset or sequence", "records"),
    _rate("no_key_compacted_rate", "records without a key for compacted topics", "records"),
    _count("remote_copy_lag_bytes", "bytes that wait for tiered storage", "bytes"),
    _count("remote_copy_lag_segments", "segments that wait for tiered storage", "segments"),
)

LOAD = (
    _value("request_handler_idle", "share of time its request handlers are idle; 0 to 1 on every version", "share"),
    _value("network_processor_idle", "share of time its network threads are idle", "share"),
    _count("request_queue_size", "requests that wait for a handler", "requests"),
    _count("response_queue_size", "answers that wait for the network", "responses"),
    _count("produce_purgatory", "produce requests that wait for replicas", "requests"),
    _count("fetch_purgatory", "fetch requests that wait for data", "requests"),
    _count("fetch_sessions", "incremental fetch sessions in its cache", "sessions"),
    _rate("fetch_session_eviction_rate", "fetch sessions pushed out of the cache", "sessions"),
    _count("connections", "open connections over all listeners", "connections"),
    _value("connection_creation_rate", "connections opened in a second, as Kafka averages it", "connections/s"),
    _rate("failed_authentication_rate", "logins that failed", "logins"),
    _value("produce_throttle_ms", "longest produce throttle of a quota", "ms"),
    _value("fetch_throttle_ms", "longest fetch throttle of a quota", "ms"),
    _value("request_throttle_ms", "longest request throttle of a quota", "ms"),
    _count("coordinated_groups", "groups it coordinates", "groups"),
    _value("offset_commit_rate", "offset commits in a second, as Kafka averages it", "commits/s"),
    _value(
        "rebalance_rate", "completed rebalances of classic groups in a second, as Kafka averages it", "rebalances/s"
    ),
    _count("failed_offset_partitions", "partitions of the offsets topic it could not load", "partitions"),
)

DISKS = (
    _value("log_flush_p99_ms", "99th percentile of the time of a log flush", "ms"),
    _rate("log_flush_rate", "log flushes", "flushes"),
    _count("offline_log_dirs", "log dirs that failed", "dirs"),
    _count("dead_cleaner_threads", "log cleaner threads that died", "threads"),
    _count("uncleanable_partitions", "partitions the log cleaner has given up", "partitions"),
)

JVM = (
    _count("heap_used_bytes", "Java heap in use", "bytes"),
    _count("heap_max_bytes", "limit of the Java heap", "bytes"),
    _value("gc_share", "share of wall time spent collecting garbage, since the poll before", "share"),
    _rate("gc_rate", "garbage collections", "collections"),
    _value("gc_mean_ms", "mean time of the collections since the poll before", "ms"),
    _count("open_file_descriptors", "open files and sockets", "files"),
    _count("max_file_descriptors", "how many it may open", "files"),
    _value("process_cpu_load", "share of its host's processors it uses, as the JVM tells", "share"),
    _value("cpu_cores", "processors it used since the poll before", "cores"),
    _count("free_swap_bytes", "free swap space of its host", "bytes"),
    _count("threads", "live threads", "threads"),
    Field("uptime_seconds", Kind.SECONDS, "time since its JVM started", "s"),
    _count("started_ms", "wall time its JVM started; another one means a restart", "ms"),
)

QUORUM = (
    Field("raft_state", Kind.TEXT, "leader, follower, observer, candidate, ..."),
    _count("raft_leader", "node it takes, or last took, for the quorum's leader", "node id"),
    _count("raft_vote", "node it voted for in this epoch; absent when none", "node id"),
    _count("raft_epoch", "epoch of the quorum it knows"),
    _count("raft_high_watermark", "offset of the metadata log that is committed", "offset"),
    _count("raft_log_end_offset", "end of its copy of the metadata log", "offset"),
    _value("raft_commit_latency_ms", "mean time to commit a record of the metadata log", "ms"),
    _value("raft_commit_latency_max_ms", "longest time to commit a record of the metadata log", "ms"),
    _value("raft_election_latency_ms", "mean time of an election", "ms"),
    _value("raft_election_latency_max_ms", "longest time of an election", "ms"),
    _value("raft_fetch_rate", "records of the metadata log it fetched in a second, as Kafka averages it", "records/s"),
    _value("raft_append_rate", "records of the metadata log it appended in a second", "records/s"),
    _value("raft_poll_idle", "share of time the raft thread is idle", "share"),
    _count("raft_voters", "voters, as the leader counts them", "nodes"),
    _count("raft_observers", "observers, as the leader counts them", "nodes"),
    _count("raft_uncommitted_voter_change", "1 while a change of voters is not committed, on the leader"),
    _count("metadata_controller", "node it takes for the controller; absent when it knows none", "node id"),
    _count("metadata_version", "metadata version (feature level) in force"),
    _count("metadata_lag_ms", "how far the metadata it applied is behind", "ms"),
    _count("metadata_offset", "offset of the metadata it applied", "offset"),
    _count("metadata_load_errors", "errors while reading metadata", "errors"),
    _count("metadata_apply_errors", "errors while applying metadata", "errors"),
    _count("metadata_snapshot_loads", "snapshots of the metadata it loaded", "snapshots"),
    _count("snapshot_age_ms", "age of its newest snapshot of the metadata", "ms"),
    _count("snapshot_bytes", "size of its newest snapshot of the metadata", "bytes"),
)

CONTROLLER = (
    _count("active_controller", "1 on the active controller, 0 on a standby, absent on a node that is no controller"),
    _count("controller_offline_partitions", "partitions without a leader, as this controller knows", "partitions"),
    _count("fenced_brokers", "brokers fenced off, as this controller knows", "brokers"),
    _count("active_brokers", "brokers in service, as this controller knows", "brokers"),
    _count("shutting_down_brokers", "brokers that shut down in order, as this controller knows", "brokers"),
    _count("preferred_replica_imbalance", "partitions not led by their first replica", "partitions"),
    _count("global_topics", "topics of the cluster", "topics"),
    _count("global_partitions", "partitions of the cluster", "partitions"),
    _rate("unclean_election_rate", "leaders elected from replicas out of sync: messages may be lost", "elections"),
    _rate("eligible_election_rate", "leaders elected from eligible leader replicas (ELR)", "elections"),
    _rate("heartbeat_timeout_rate", "heartbeats of brokers that timed out", "heartbeats"),
    _count("new_controllers", "changes of the active controller it has seen since it started", "changes"),
    _count("metadata_errors", "errors while handling metadata since it started", "errors"),
    _rate("event_queue_timeout_rate", "operations that timed out in its queue", "operations"),
    _value("event_queue_p99_ms", "99th percentile of the time an event waits for it", "ms"),
    _value("event_processing_p99_ms", "99th percentile of the time it works on an event", "ms"),
    _value("event_idle", "share of time its event thread is idle", "share"),
    _count("controller_lag_ms", "how far a standby is behind the active controller", "ms"),
    _count("controller_applied_offset", "offset of the metadata it applied", "offset"),
    _count("controller_committed_offset", "offset of the metadata that is committed", "offset"),
)

BROKER_HEALTH = (
    *BALANCE, *NODE, *REPLICAS, *BROKER_TRAFFIC, *LOAD, *DISKS, *JVM, *QUORUM, *CONTROLLER,
)  # fmt: skip

CLUSTER_HEALTH = (
    _value("preferred_leader_imbalance", "share of partitions not led by their first replica", "share"),
    _count("overfull_brokers", "brokers that hold more than 4,000 partitions", "brokers"),
    _count("oversized_partitions", "watched partitions with a replica above 50 GB", "partitions"),
    _count("jmx_under_replicated_partitions", "sum of what the brokers' own beans tell", "partitions"),
    _count("jmx_under_min_isr_partitions", "sum of what the brokers' own beans tell", "partitions"),
    _count(
        "at_min_isr_partitions", "partitions that cannot lose another replica without refusing writes", "partitions"
    ),
    _count("jmx_offline_partitions", "most that a controller's own beans tell", "partitions"),
    _count("jmx_active_controllers", "sum of what the controllers' own beans tell: 1 is right", "controllers"),
    _count("fenced_brokers", "brokers fenced off, as the active controller knows", "brokers"),
    _count("active_brokers", "brokers in service, as the active controller knows", "brokers"),
    _rate("unclean_election_rate", "leaders elected from replicas out of sync: messages may be lost", "elections"),
    *TRAFFIC,
    _count(
        "disagreements", "things that JMX and the Kafka API have told differently for more than two polls", "things"
    ),
    Field("disagreement", Kind.TEXT, "what they tell differently, in words"),
)

TOPIC_HEALTH = TRAFFIC

_PARTS = (
    ("total", "in all"),
    ("queue", "waiting for a handler"),
    ("local", "being worked on by the leader"),
    ("remote", "waiting for followers or for data"),
    ("throttle", "held back by a quota"),
    ("response_queue", "as an answer that waits for the network"),
    ("response_send", "being sent"),
)


def _times(parts: Sequence[tuple[str, str]]) -> list[Field]:
    mean = [
        _value(f"{name}_mean_ms", f"mean time {what}, of those since the poll before", "ms") for name, what in parts
    ]
    p99 = [
        _value(f"{name}_p99_ms", f"99th percentile of the time {what}, newer ones weigh more", "ms")
        for name, what in parts
    ]
    return [field for pair in zip(mean, p99, strict=True) for field in pair]


BROKER_REQUEST = Table(
    "broker_request",
    "One kind of request at one broker, from JMX: how many, and where their time goes.",
    (CLUSTER_TAG, BROKER_TAG, Tag("request", "kind of request, such as Produce or FetchConsumer")),
    (
        _rate("rate", "requests over all their versions", "requests"),
        _rate("error_rate", "answers with an error, over all errors", "answers"),
        *_times(_PARTS),
    ),
)
