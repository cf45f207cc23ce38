"""Names that several layers share: the sources of lagwatch's collectors, Kafka's offsets topic and its group states."""

from __future__ import annotations

KAFKA = "kafka"
COMMITS = "kafka_commits"
CONFIGS = "kafka_configs"
LOGDIRS = "kafka_logdirs"
QUORUM = "kafka_quorum"
TIMESTAMPS = "kafka_timestamps"
UNREAD = "kafka_unread"
JMX = "jmx"

OFFSETS_TOPIC = "__consumer_offsets"

WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
