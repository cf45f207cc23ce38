"""Tags and fields shared by several tables."""

from __future__ import annotations

from lagwatch.catalogue.model import Field, Kind, Tag

CLUSTER_TAG = Tag("cluster", "Name of the Kafka cluster in the configuration.")
GROUP_TAG = Tag("group", "Consumer group id.")
TOPIC_TAG = Tag("topic", "Topic name.")
PARTITION_TAG = Tag("partition", "Partition number.", number=True)
BROKER_TAG = Tag("broker", "Broker or controller id.", number=True)

STALE = (
    Field("stale", Kind.BOOL, "Whether this poll could not fetch the values: they are the last known ones."),
    Field("age_seconds", Kind.SECONDS, "Age of the values; present only when stale.", "s"),
)
