"""The clusters of the generated history, their topics and groups, and the incidents.

Times of incidents are hours before the end of the history, so that a dashboard of the last day shows the newest ones
whatever the length of the history.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class StoryTopic:
    """A topic: mean records per second, the weight of each partition, and the retention."""

    name: str
    per_second: float
    shares: tuple[int, ...]
    retention_hours: float = 72
    message_bytes: int = 400


class Trouble(Enum):
    """A kind of problem of a group."""

    SLOW = auto()  # reads slower than producers write
    STOPPED = auto()  # has no processes
    STUCK = auto()  # has members, but its offsets do not move
    REWOUND = auto()  # its offsets are reset by six hours
    STORM = auto()  # rebalances at every poll and reads little


@dataclass(frozen=True, slots=True)
class Incident:
    """A problem and when it starts and ends, in hours before the end; with a negative end it lasts."""

    trouble: Trouble
    from_hours: float
    to_hours: float

    def is_active(self, hours_before_end: float) -> bool:
        """Whether it is active at this time."""
        return self.to_hours < hours_before_end <= self.from_hours


@dataclass(frozen=True, slots=True)
class StoryGroup:
    """A group, the topics it reads, how many members it has, and its incidents."""

    name: str
    topics: tuple[str, ...]
    members: int
    incidents: tuple[Incident, ...] = ()

    def troubles(self, hours_before_end: float) -> set[Trouble]:
        """The active problems at this time."""
        return {incident.trouble for incident in self.incidents if incident.is_active(hours_before_end)}


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage of one broker, or of the whole cluster when `broker` is None."""

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
        """The brokers that are down at this time."""
        return {
            one.broker
            for one in self.outages
            if one.broker is not None and one.to_hours < hours_before_end <= one.from_hours
        }

    def unreachable(self, hours_before_end: float) -> bool:
        """Whether the agent reaches no broker."""
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
