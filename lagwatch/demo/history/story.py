"""What happened, in tables: the clusters, their topics and groups, and what went wrong when.

Times of incidents are hours before the end of the history, so that the newest ones are on a board of the last day
whatever the length of the history.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class StoryTopic:
    """A topic: what is written a second on an average day, how it falls on its partitions, and how long it is kept."""

    name: str
    per_second: float
    shares: tuple[int, ...]
    retention_hours: float = 72
    message_bytes: int = 400


class Trouble(Enum):
    """What goes wrong with a group."""

    SLOW = auto()  # reads less than is written
    STOPPED = auto()  # its processes are gone
    STUCK = auto()  # its members are there, its offsets do not move
    REWOUND = auto()  # its offsets are set back by six hours
    STORM = auto()  # it rebalances at every poll and reads little


@dataclass(frozen=True, slots=True)
class Incident:
    """From so many hours before the end until so many; an end below zero lasts."""

    trouble: Trouble
    from_hours: float
    to_hours: float

    def goes_on(self, hours_before_end: float) -> bool:
        """Whether it goes on at this time."""
        return self.to_hours < hours_before_end <= self.from_hours


@dataclass(frozen=True, slots=True)
class StoryGroup:
    """A group, the topics it reads, how many members it has, and its incidents."""

    name: str
    topics: tuple[str, ...]
    members: int
    incidents: tuple[Incident, ...] = ()

    def troubles(self, hours_before_end: float) -> set[Trouble]:
        """What is wrong with it at this time."""
        return {one.trouble for one in self.incidents if one.goes_on(hours_before_end)}


@dataclass(frozen=True, slots=True)
class Outage:
    """A broker that is away, or the whole cluster out of the agent's reach when no broker is named."""

    from_hours: float
    to_hours: float
    broker: int | None = None


@dataclass(frozen=True, slots=True)
class StoryCluster:
    """A cluster of three brokers."""

    name: str
    topics: tuple[StoryTopic, ...]
    groups: tuple[StoryGroup, ...]
    outages: tuple[Outage, ...] = ()
    brokers: tuple[int, ...] = (1, 2, 3)

    def away(self, hours_before_end: float) -> set[int]:
        """The brokers that are away at this time."""
        return {
            one.broker
            for one in self.outages
            if one.broker is not None and one.to_hours < hours_before_end <= one.from_hours
        }

    def unreachable(self, hours_before_end: float) -> bool:
        """Whether the agent reaches nobody."""
        return any(one.broker is None and one.to_hours < hours_before_end <= one.from_hours for one in self.outages)


LASTS = -1e9

EAST = StoryCluster(
    "east",
    (
        StoryTopic("orders", 120, (8, 4, 2, 2, 1, 1)),
        StoryTopic("clicks", 400, (9, 1, 1, 1), retention_hours=6, message_bytes=150),
        StoryTopic("payments", 30, (3, 2, 1)),
        StoryTopic("audit", 5, (1,), retention_hours=168),
    ),
    (
        StoryGroup("billing", ("orders",), 3, (Incident(Trouble.SLOW, 60, 55), Incident(Trouble.SLOW, 4, 2.5))),
        StoryGroup("mailer", ("orders",), 2, (Incident(Trouble.STOPPED, 9, LASTS),)),
        StoryGroup("search-index", ("clicks", "orders"), 4, (Incident(Trouble.STORM, 20, 18),)),
        StoryGroup("archiver", ("clicks",), 2, (Incident(Trouble.STOPPED, 76, 64), Incident(Trouble.STOPPED, 15, 7))),
        StoryGroup(
            "replayer", ("payments",), 1, (Incident(Trouble.REWOUND, 30, 29.7), Incident(Trouble.REWOUND, 2, 1.8))
        ),
        StoryGroup("fraud", ("payments",), 1, (Incident(Trouble.STUCK, 26, 24), Incident(Trouble.SLOW, 1.2, LASTS))),
        StoryGroup("auditor", ("audit", "payments"), 1),
    ),
    (Outage(50, 49, broker=3), Outage(6, 5.5, broker=2)),
)
WEST = StoryCluster(
    "west",
    (StoryTopic("telemetry", 80, (1, 1, 1, 1)), StoryTopic("alerts", 2, (1,))),
    (
        StoryGroup("dashboards", ("telemetry",), 2),
        StoryGroup("pager", ("alerts",), 1, (Incident(Trouble.STUCK, 100, 98),)),
    ),
    (Outage(12, 11.5),),
)
CLUSTERS = (EAST, WEST)
