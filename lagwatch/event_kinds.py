"""The kinds of events: the tag `kind` of the table `event`."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """The kind of a change."""

    STATUS = "status"
    REWIND = "rewind"
    MESSAGES_LOST = "messages_lost"
    REBALANCE = "rebalance"
    GROUP_GONE = "group_gone"
    TOPIC_GONE = "topic_gone"
    TOPIC_RECREATED = "topic_recreated"
    TRUNCATED = "truncated"
    DISAGREEMENT = "disagreement"
    NODE_RESTARTED = "node_restarted"
    CLOCK_STEP = "clock_step"
