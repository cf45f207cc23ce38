"""Names of the sources: every batch carries the name of the one that wrote it."""

from __future__ import annotations

# The jobs that poll one cluster.
KAFKA = "kafka"
COMMITS = "kafka_commits"
BACKLOG = "backlog"  # target of COMMITS: down while there are commits it has not read yet
CONFIGS = "kafka_configs"
LOGDIRS = "kafka_logdirs"
QUORUM = "kafka_quorum"
TIMESTAMPS = "kafka_timestamps"
UNREAD = "kafka_unread"
JMX = "jmx"

# What the agent writes itself.
AGENT = "agent"  # its own metrics, and steps of the clock
EVALUATION = "evaluation"  # counts by status of a poll that did not reach the cluster
SHIPPING = "shipping"  # state of the sinks, and rows they rejected
