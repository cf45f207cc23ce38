"""Events: changes between two polls, as rows of the table `event`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import EVENT
from lagwatch.clock import Moment
from lagwatch.columns import strings_of
from lagwatch.event_kinds import EventKind


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `why` is a sentence."""

    kind: EventKind
    subject: str
    before: str
    after: str
    why: str


def event_batch(cluster: str, events: Sequence[Event], now: Moment, source: str) -> list[Batch]:
    """The events as one batch; none if there are no events."""
    if not events:
        return []
    columns = {
        "kind": [event.kind.value for event in events],
        "subject": [event.subject for event in events],
        "before": [event.before for event in events],
        "after": [event.after for event in events],
        "why": [event.why for event in events],
    }
    return [make_batch(EVENT, cluster, now.wall_ms, columns, source=source)]


def events_of(batch: Batch | None) -> list[Event]:
    """The events of a batch."""
    if batch is None:
        return []
    return [
        Event(EventKind(row["kind"]), row["subject"], row["before"] or "", row["after"] or "", row["why"])
        for row in batch.rows.to_pylist()
    ]


def subjects(events: Batch, kinds: Iterable[EventKind]) -> list[str]:
    """The subjects of the events of these kinds."""
    wanted = {kind.value for kind in kinds}
    rows = zip(strings_of(events.rows, "kind"), strings_of(events.rows, "subject"), strict=True)
    return [subject for kind, subject in rows if kind in wanted]
