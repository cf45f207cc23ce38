"""Start and end offsets of partitions at any time, by a formula."""

from __future__ import annotations

import math

from lagwatch.demo.history.story import HOUR, StoryTopic

_DAY = 24 * HOUR
_SWING = 0.6  # relative amplitude of the daily cycle
_BEFORE_SECONDS = 400 * _DAY  # topics are older than any history


class Traffic:
    """The start and end offsets of the partitions of a topic. Times are wall seconds; the story ends at `end`."""

    def __init__(self, topic: StoryTopic, end: float) -> None:
        self.topic = topic
        self._origin = end - _BEFORE_SECONDS

    def per_second(self, at: float) -> float:
        """Records per second written to the topic at this time."""
        return self.topic.per_second * (1 - _SWING * math.cos(2 * math.pi * at / _DAY))

    def ends(self, at: float) -> list[int]:
        """The end offset of each partition."""
        written = self.topic.per_second * (self._whole(at) - self._whole(self._origin))
        weight = sum(self.topic.shares)
        return [int(written * share / weight) for share in self.topic.shares]

    def starts(self, at: float) -> list[int]:
        """The log start offset of each partition; retention deletes segments of half an hour."""
        segment = HOUR / 2
        kept_from = at - self.topic.retention_hours * HOUR
        return self.ends(kept_from // segment * segment)

    def _whole(self, at: float) -> float:
        return at - _SWING * _DAY / (2 * math.pi) * math.sin(2 * math.pi * at / _DAY)
