"""Kafka's own names for topics and group states."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"

# Group states.
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
