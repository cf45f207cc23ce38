"""Compares a cluster's health as reported by the Kafka API and by JMX, and reports lasting disagreements.

The Kafka API counts what this user is authorized to see; the nodes' beans count everything. If the two differ for more
than two polls, something is wrong: an ACL is missing, or a broker is cut off from the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagwatch.batch import Batch, replace_columns
from lagwatch.event_kinds import EventKind
from lagwatch.pipeline.events import Event
from lagwatch.source_names import JMX
from lagwatch.verdict.disagreement import Disagreement, DisagreementTracker

_OF_CLUSTER = {  # the column of the Kafka API: the column of JMX, and the name in messages
    "under_replicated_partitions": ("jmx_under_replicated_partitions", "under-replicated partitions"),
    "under_min_isr_partitions": ("jmx_under_min_isr_partitions", "partitions below min.insync.replicas"),
    "offline_partitions": ("jmx_offline_partitions", "offline partitions"),
    "active_controllers": ("jmx_active_controllers", "active controllers"),
}
_OF_BROKER = {"leaders": ("jmx_leaders", "leaders"), "partitions": ("jmx_partitions", "replicas")}


_SUMS = {_OF_CLUSTER[name][1] for name in ("under_replicated_partitions", "under_min_isr_partitions")}

_OFFLINE = _OF_CLUSTER["offline_partitions"][1]


class CrossCheck:
    """Compares the two sources of one cluster."""

    def __init__(self) -> None:
        self._agreement = DisagreementTracker()
        self._reported: set[str] = set()

    def observe(self, source: str, batches: Sequence[Batch], *, complete: bool) -> tuple[list[Batch], list[Event]]:
        """The batches of one job, with the disagreements added to those of JMX; and events for changes.

        Sums are not compared if a node did not respond to JMX, or if partitions without a leader are missing from the
        brokers' counts.
        """
        if source != JMX:
            facts = _facts(batches, 0)
            self._agreement.observe_kafka(facts)
            if facts.get(_OFFLINE):
                self._agreement.forget(_SUMS)
            return list(batches), []
        facts = {what: value for what, value in _facts(batches, 1).items() if complete or what not in _SUMS}
        lasting = self._agreement.observe_jmx(facts)
        return [_with_disagreements(batch, lasting) for batch in batches], self._events(lasting)

    def retire_jmx(self) -> list[Event]:
        """JMX is no longer polled: drop what was found; returns the ends of disagreements."""
        self._agreement = DisagreementTracker()
        return self._events([])

    def _events(self, lasting: Sequence[Disagreement]) -> list[Event]:
        now = {found.what: found for found in lasting}
        events = [
            Event(
                EventKind.DISAGREEMENT,
                what,
                f"Kafka: {found.kafka}",
                f"JMX: {found.jmx}",
                f"{found.text}, for {found.polls} polls",
            )
            for what, found in now.items()
            if what not in self._reported
        ]
        ended = sorted(self._reported - now.keys())
        for what in ended:
            over = "no longer differ" if what in self._agreement.compared else "can no longer be compared"
            events.append(Event(EventKind.DISAGREEMENT, what, "", "", f"{what}: Kafka and JMX {over}"))
        self._reported = set(now)
        return events


def _facts(batches: Sequence[Batch], which: int) -> dict[str, int]:
    """The facts of one side: 0 is the Kafka API, 1 is JMX."""
    facts: dict[str, int] = {}
    for batch in batches:
        if batch.table not in ("cluster", "broker"):
            continue
        names = _OF_CLUSTER if batch.table == "cluster" else _OF_BROKER
        columns = {(api, jmx)[which]: words for api, (jmx, words) in names.items()}
        for row in batch.rows.select([*columns, *(["broker"] if batch.table == "broker" else [])]).to_pylist():
            of = f" of broker {row['broker']}" if batch.table == "broker" else ""
            facts |= {f"{words}{of}": row[name] for name, words in columns.items() if row[name] is not None}
    return facts


def _with_disagreements(batch: Batch, lasting: Sequence[Disagreement]) -> Batch:
    if batch.table != "cluster":
        return batch
    words: Any = "; ".join(found.text for found in lasting) or None
    return replace_columns(batch, {"disagreements": [len(lasting)], "disagreement": [words]})
