"""Tags and fields that several tables share."""

from __future__ import annotations

from lagwatch.catalogue.model import Field, Kind, Tag

CLUSTER_TAG = Tag("cluster", "name of the Kafka cluster in the configuration")
GROUP_TAG = Tag("group", "consumer group id")
TOPIC_TAG = Tag("topic", "topic name")
PARTITION_TAG = Tag("partition", "partition number", number=True)
BROKER_TAG = Tag("broker", "broker or controller id", number=True)

STALE = (
    Field("stale", Kind.BOOL, "true when it could not be asked in this poll: the values are the last known ones"),
    Field("age_seconds", Kind.SECONDS, "how old the values are; present only when stale", "s"),
)
