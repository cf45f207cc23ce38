"""Kafka's own names for topics, group types and group states."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"

# Group types.
CLASSIC_TYPES = frozenset({"", "classic"})  # an older broker returns no type
CONSUMER_TYPE = "consumer"  # the KIP-848 protocol: DescribeGroups reports such a group as Dead
SHARE_TYPE = "share"  # share groups keep their own state, not committed offsets

# Group states.
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
