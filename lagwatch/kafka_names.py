"""Names that several stages share: the sources, and Kafka's own names for topics and group states."""

from __future__ import annotations

# Sources: the jobs that poll one cluster.
KAFKA = "kafka"
COMMITS = "kafka_commits"
BACKLOG = "backlog"  # target of COMMITS: down while there are commits it has not read yet
CONFIGS = "kafka_configs"
LOGDIRS = "kafka_logdirs"
QUORUM = "kafka_quorum"
TIMESTAMPS = "kafka_timestamps"
UNREAD = "kafka_unread"
JMX = "jmx"

OFFSETS_TOPIC = "__consumer_offsets"

# Group states.
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
