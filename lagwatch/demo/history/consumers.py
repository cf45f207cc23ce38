"""Simulates the committed offsets and members of each group from poll to poll."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lagwatch.demo.history.story import HOUR, StoryGroup, Trouble
from lagwatch.demo.history.traffic import Traffic

_BEHIND_SECONDS = 3.0  # maximum for a group that keeps up
_SLOW, _STORMY, _CATCHING_UP = 0.7, 0.5, 2.5  # read rates relative to the write rate


@dataclass(frozen=True, slots=True)
class StoryMember:
    """One member and its assignment, as `topic:0-3`."""

    id: str
    client: str
    host: str
    partitions: int
    assignment: str


def behind_seconds(group: str, at: float) -> float:
    """How far a healthy group is behind at a poll: varies between polls, but is deterministic."""
    fraction = math.sin(at * 12.9898 + sum(map(ord, group)) * 78.233) * 43758.5453 % 1
    return max(0.0, fraction * 1.5 - 0.5) * _BEHIND_SECONDS


class GroupProgress:
    """One group over time. Call `advance` for each poll, in order."""

    def __init__(self, group: StoryGroup, traffic: Mapping[str, Traffic], begin: float, end: float) -> None:
        self.group = group
        self.committed = {topic: traffic[topic].ends(begin) for topic in group.topics}
        self._traffic = traffic
        self._at, self._end = begin, end
        self._troubles: set[Trouble] = set()
        self._generation = 0

    def advance(self, at: float) -> None:
        """Read until this time."""
        before, self._troubles = self._troubles, self.group.troubles((self._end - at) / HOUR)
        if Trouble.STORM in self._troubles or self._troubles ^ before:
            self._generation += 1
        elapsed, self._at = at - self._at, at
        if self._troubles & {Trouble.STOPPED, Trouble.STUCK}:
            return
        for topic, committed in self.committed.items():
            traffic = self._traffic[topic]
            if Trouble.REWOUND in self._troubles - before:
                back = traffic.ends(at - 6 * HOUR)
                self.committed[topic] = [max(b, s) for b, s in zip(back, traffic.starts(at), strict=True)]
            else:
                self.committed[topic] = self._read(traffic, committed, at, elapsed)

    def _read(self, traffic: Traffic, committed: list[int], at: float, elapsed: float) -> list[int]:
        """The new offset of each partition, by its own rate; skips records that retention deleted."""
        rate = _SLOW if Trouble.SLOW in self._troubles else _STORMY if Trouble.STORM in self._troubles else _CATCHING_UP
        weight = sum(traffic.topic.shares)
        reach = [rate * traffic.per_second(at) * elapsed * share / weight for share in traffic.topic.shares]
        newest = traffic.ends(at - behind_seconds(self.group.name, at))
        oldest = traffic.starts(at)
        return [
            min(new, max(old, int(done + more)))
            for new, old, done, more in zip(newest, oldest, committed, reach, strict=True)
        ]

    @property
    def state(self) -> str:
        """The group state, as the coordinator lists it."""
        return "Empty" if Trouble.STOPPED in self._troubles else "Stable"

    def members(self) -> list[StoryMember]:
        """The current members; their ids change with each rebalance."""
        if Trouble.STOPPED in self._troubles:
            return []
        every = [(topic, p) for topic in self.group.topics for p in range(len(self.committed[topic]))]
        made = []
        for number in range(self.group.members):
            mine = every[number :: self.group.members]
            text = " ".join(
                f"{topic}:{','.join(str(p) for t, p in mine if t == topic)}"
                for topic in dict.fromkeys(topic for topic, _ in mine)
            )
            client = f"{self.group.name}-{number + 1}"
            made.append(
                StoryMember(f"{client}-{self._generation:04d}", client, f"/10.0.3.{number + 11}", len(mine), text)
            )
        return made
