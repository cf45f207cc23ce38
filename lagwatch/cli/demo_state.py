"""Reads what the demo shows from the agent's journal: groups with their recent lags, cluster health, events."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagwatch.errors import LagwatchError
from lagwatch.event_kinds import EventKind
from lagwatch.journal import JournalReader
from lagwatch.snapshot.from_journal import view_journal
from lagwatch.snapshot.health import Health
from lagwatch.snapshot.lag import GroupLag, read_lag
from lagwatch.snapshot.names import NamePatterns
from lagwatch.source_names import KAFKA
from lagwatch.text import iso_time
from lagwatch.verdict.why import with_status

_TABLES = {"consumer_lag", "consumer_group", "topic_partition", "cluster", "broker", "topic"}
_EVENTS = 20
_LAGS = 200


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group as the demo shows it. `lags` are those of the last polls, oldest first; an unknown one is None."""

    name: str
    what: str
    state: str
    protocol_type: str
    members: int | None
    lag: int | None
    committed: int
    still_seconds: float | None
    rebalances: int
    stale: bool
    lags: Sequence[int | None] = ()
    status: str = ""
    why: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        names = (
            "what", "status", "why", "state", "protocol_type", "members", "lag", "committed", "still_seconds", "rebalances",
            "stale",
        )  # fmt: skip
        return {"group": self.name, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """One event with its time."""

    at_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class DemoState:
    """What the demo shows at one point in time."""

    health: Health
    groups: Sequence[GroupLine]
    events: Sequence[ShownEvent]

    @property
    def poll_seconds(self) -> float | None:
        """The duration of the agent's last poll of the brokers."""
        runs = self.health.view.columns("source", "target", "duration_seconds", source=KAFKA)
        took = [seconds for target, seconds in runs if not target]
        return took[-1] if took else None

    @property
    def age_seconds(self) -> float:
        """The age of the newest data of groups."""
        return self.health.view.age_seconds("consumer_group", KAFKA)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "at": iso_time(self.health.view.at_ms),
            "cluster": self.health.totals,
            "problems": self.health.problems(),
            "poll_seconds": self.poll_seconds,
            "groups": [group.document() for group in self.groups],
            "events": [{"at": iso_time(event.at_ms), "why": event.why} for event in self.events],
        }


def largest_lag_first(groups: Sequence[GroupLine]) -> list[GroupLine]:
    """Sorted by lag, the largest first; an unknown lag may be any, so it comes before all."""
    return sorted(groups, key=lambda group: (group.lag is not None, -(group.lag or 0), group.name))


class JournalFollower:
    """Reads a journal repeatedly, each time only what is new."""

    def __init__(self, journal: Path, cluster: str, descriptions: Mapping[str, str]) -> None:
        self._reader = JournalReader(journal)
        self._cluster, self._legend = cluster, descriptions
        self._last_poll = 0
        self._lags: dict[str, deque[int | None]] = {}
        self._verdicts: dict[str, tuple[str, str]] = {}  # the last status of each group, and why
        self._events: deque[ShownEvent] = deque(maxlen=_EVENTS)

    def read(self) -> DemoState | None:
        """The current state; None before the agent's first poll."""
        try:
            self._read_new_polls()
            view = view_journal(self._reader.path, self._cluster, _TABLES)
        except LagwatchError:  # the journal is being created, or has no poll yet
            return None
        if view.unreachable:
            return None
        groups = [self._line(group) for group in read_lag(view, NamePatterns(), NamePatterns())]
        return DemoState(Health(view), largest_lag_first(groups), list(self._events))

    def _read_new_polls(self) -> None:
        for poll in self._reader.tail(self._last_poll, tables={"consumer_group", "event"}):
            self._last_poll = poll.poll
            for batch in poll.batches:
                rows = batch.rows.to_pylist()
                if batch.table == "event":
                    self._events.extend(ShownEvent(batch.at_ms, _sentence(row)) for row in rows)
                else:
                    self._add_lags({row["group"]: _known_lag(row) for row in rows})
                    self._verdicts = {row["group"]: (row["status_text"] or "", row["why"] or "") for row in rows}

    def _add_lags(self, lags: Mapping[str, int | None]) -> None:
        for name in self._lags.keys() | lags.keys():
            self._lags.setdefault(name, deque(maxlen=_LAGS)).append(lags.get(name))

    def _line(self, group: GroupLag) -> GroupLine:
        about = group.about
        status, why = self._verdicts.get(group.group, ("", ""))
        behind = [row.seconds_since_moved for row in group.rows if row.lag and row.seconds_since_moved is not None]
        return GroupLine(
            name=group.group,
            what=self._legend.get(group.group, ""),
            state=about.get("state") or "unknown",
            protocol_type=about.get("protocol_type") or "",
            members=about.get("members"),
            lag=group.total_lag,
            committed=sum(row.committed_offset or 0 for row in group.rows),
            still_seconds=max(behind, default=None),
            rebalances=about.get("rebalances") or 0,
            stale=bool(about.get("stale")) or any(row.stale for row in group.rows),
            lags=tuple(self._lags.get(group.group, ())),
            status=status,
            why=why,
        )


def _sentence(event: Mapping[str, Any]) -> str:
    """The sentence of an event; for a changed status it starts with the new one."""
    return with_status(event["after"], event["why"]) if event["kind"] == EventKind.STATUS else str(event["why"])


def _known_lag(row: Mapping[str, Any]) -> int | None:
    """The lag; None for a group without commits, and for a stale one, which is not a new measurement."""
    if row["stale"] or not row["partitions"] or row["unknown_lag_partitions"] == row["partitions"]:
        return None
    lag: int | None = row["total_lag"]
    return lag
