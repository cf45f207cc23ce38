"""The health of a cluster: totals, brokers, bad partitions, and a sentence for each problem. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lagwatch.snapshot.view import ClusterView, failure_lines
from lagwatch.source_names import KAFKA
from lagwatch.text import counted, duration_text, one_line

_PARTITION = ("leader", "replicas", "in_sync_replicas", "under_replicated", "under_min_isr", "offline")
_MOST_BROKERS_NAMED = 5


@dataclass(frozen=True)
class Health:
    """The health of a cluster, from a view of it."""

    view: ClusterView

    @cached_property
    def totals(self) -> dict[str, Any]:
        """The row of the cluster; empty when there is none."""
        return next(iter(self.view.merged("cluster")), {})

    @cached_property
    def brokers(self) -> list[dict[str, Any]]:
        """Brokers and controllers by id; `answers` is whether they responded to the last poll."""
        responded = {
            target: up
            for target, up in self.view.columns("source", "target", "up", source=KAFKA)
            if target.startswith("broker ")
        }
        return [
            {**row, "answers": False if self.not_polled else responded.get(f"broker {row['broker']}")}
            for row in self.view.merged("broker")
        ]

    @cached_property
    def bad_partitions(self) -> list[dict[str, Any]]:
        """Offline, below min.insync.replicas or under-replicated partitions, the worst first."""
        min_isr = {row["topic"]: row["min_isr"] for row in self.view.merged("topic")}
        newest = {
            (topic, partition): dict(zip(_PARTITION, values, strict=True))
            for topic, partition, *values in self.view.columns(
                "topic_partition", "topic", "partition", *_PARTITION, source=KAFKA
            )
        }
        bad = [
            {"topic": topic, "partition": partition, **row, "min_isr": min_isr.get(topic)}
            for (topic, partition), row in newest.items()
            if row["under_replicated"] or row["under_min_isr"] or row["offline"]
        ]
        return sorted(
            bad, key=lambda row: (not row["offline"], not row["under_min_isr"], row["topic"], row["partition"])
        )

    @property
    def no_controller(self) -> bool:
        """Whether the cluster has no active controller: topics, leaders and configurations cannot change."""
        return self.totals.get("active_controllers") == 0

    @cached_property
    def not_polled(self) -> bool:
        """Whether the last poll reached no broker: everything is as of the poll before."""
        return any(failed.source == KAFKA and not failed.target for failed in self.view.failures)

    def controller_line(self) -> str:
        """The active controller and its quorum, or a warning that there is none."""
        totals = self.totals
        if self.no_controller:
            return (
                "NO CONTROLLER: no leader can be elected, no topic created, until the controllers have a quorum again"
            )
        if totals.get("controller") is None:
            return "controller: unknown"
        line = f"{'last known ' if self.not_polled else ''}controller: node {totals['controller']}"
        if totals.get("quorum_voters") is None:
            return line
        behind = totals.get("quorum_max_lag")
        slowest = "lag unknown" if behind is None else f"the slowest {counted(behind, 'record')} behind"
        return f"{line}, epoch {totals['quorum_epoch']}, {counted(totals['quorum_voters'], 'voter')}, {slowest}"

    def suspect_line(self) -> str | None:
        """The broker that causes the under-replication, with the evidence, or that there is no single one."""
        under = self.totals.get("under_replicated_partitions") or 0
        if not under:
            return None
        missing = {row["broker"]: row["missing_from_isr"] or 0 for row in self.brokers}
        suspect = self.totals.get("suspect_broker")
        partitions = counted(under, "under-replicated partition")
        if suspect is not None:
            return f"suspect: broker {suspect} is missing from {missing.get(suspect, 0):,} of {partitions}"
        shares = sorted(((count, broker) for broker, count in missing.items() if count), reverse=True)
        named = [f"broker {broker} from {count:,}" for count, broker in shares[:_MOST_BROKERS_NAMED]]
        return f"no single suspect for {partitions}; missing: {', '.join(named)}"

    def partition_problems(self) -> list[str]:
        """The number of partitions with each problem, the worst first."""
        counts = (
            ("offline_partitions", "offline"),
            ("under_min_isr_partitions", "below min.insync.replicas"),
            ("under_replicated_partitions", "under-replicated"),
        )
        numbers = [(self.totals.get(name) or 0, what) for name, what in counts]
        return [f"{counted(number, 'partition')} {what}" for number, what in numbers if number]

    def problems(self) -> list[str]:
        """A sentence for each problem, failed queries included."""
        controller = [self.controller_line()] if self.no_controller else []
        overdue = [self.view.overdue] if self.view.overdue else []
        failed = failure_lines(self.view.failures)
        return [*controller, *self.partition_problems(), *self.disagreements(), *overdue, *failed]

    def disagreements(self) -> list[str]:
        """Values that differ between JMX and the Kafka API for more than two polls."""
        found = self.totals.get("disagreement") or ""
        return [f"JMX and Kafka disagree: {text}" for text in found.split("; ") if text]

    def in_sync_line(self) -> str:
        """The line for a cluster whose brokers report no bad partition."""
        if self.no_controller:
            return "replicas: all in sync as last reported by a controller; not updated since"
        if self.not_polled:
            return "replicas: all in sync when the cluster was last polled"
        return "all partitions have all their replicas in sync"

    def preferred_line(self) -> str | None:
        """The number of partitions not led by their preferred replica; not a problem on its own."""
        number = self.totals.get("not_preferred_leader_partitions")
        if not number:
            return None
        return f"{counted(number, 'partition')} not led by the preferred replica"

    def headline(self) -> str:
        """Totals in one line."""
        totals = self.totals
        parts = [
            counted(totals[f"{noun}s"], noun)
            for noun in ("broker", "topic", "partition", "group")
            if totals.get(f"{noun}s") is not None
        ]
        if not self.view.complete and totals.get("groups") is not None:
            parts[-1] = f"at least {parts[-1]}"
        known = sum(1 for row in self.brokers if row["registered"] is not None)
        if parts and totals.get("brokers") is not None and totals["brokers"] < known:
            parts[0] = f"{totals['brokers']} of {counted(known, 'broker')}"
        name = self.view.cluster + (f" (id {one_line(totals['cluster_id'])})" if totals.get("cluster_id") else "")
        age = (
            f", {duration_text(self.view.age_seconds('cluster', KAFKA))} ago"
            if self.view.from_journal and parts
            else ""
        )
        return f"cluster {name}: {', '.join(parts) or 'no data'}{age}"
