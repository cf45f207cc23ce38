"""The health of a cluster: what was seen of it enters, facts, sentences and problems leave. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lagwatch.cli.output import TableColumn, counted, iso_time, one_line
from lagwatch.cli.seen import KAFKA, Seen, failures_in_words
from lagwatch.text import duration_text, size_text

_PARTITION = ("leader", "replicas", "in_sync_replicas", "under_replicated", "under_min_isr", "offline")
_MOST_BROKERS_NAMED = 5


@dataclass(frozen=True)
class Health:
    """A cluster as one person would describe it to another."""

    seen: Seen

    @cached_property
    def totals(self) -> dict[str, Any]:
        """The row of the cluster; empty when it is not known."""
        return next(iter(self.seen.merged("cluster")), {})

    @cached_property
    def brokers(self) -> list[dict[str, Any]]:
        """Brokers and controllers by number, with what they answered."""
        answered = {
            target: up
            for source, target, up in self.seen.columns("source", "source", "target", "up")
            if source == KAFKA and target.startswith("broker ")
        }
        nobody = any(failed.source == KAFKA and not failed.target for failed in self.seen.failures)
        return [
            {**row, "answers": False if nobody else answered.get(f"broker {row['broker']}")}
            for row in self.seen.merged("broker")
        ]

    @cached_property
    def bad_partitions(self) -> list[dict[str, Any]]:
        """Partitions with something wrong, the worst first."""
        min_isr = {row["topic"]: row["min_isr"] for row in self.seen.merged("topic")}
        newest = {
            (topic, partition): dict(zip(_PARTITION, values, strict=True))
            for topic, partition, *values in self.seen.columns("topic_partition", "topic", "partition", *_PARTITION)
            if values[1] is not None  # sizes alone: another job's row
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
        """Whether nobody leads the cluster: topics, leaders and configurations cannot change."""
        return self.totals.get("active_controllers") == 0

    def controller_line(self) -> str:
        """Who leads, or loudly that nobody does."""
        totals = self.totals
        if self.no_controller:
            return (
                "NO CONTROLLER: no leader can be elected, no topic created, until the controllers have a quorum again"
            )
        if totals.get("controller") is None:
            return "controller: not known"
        line = f"controller: node {totals['controller']}"
        if totals.get("quorum_voters") is None:
            return line
        behind = totals.get("quorum_max_lag")
        slowest = "lag not known" if behind is None else f"the slowest {counted(behind, 'record')} behind"
        return f"{line}, epoch {totals['quorum_epoch']}, {counted(totals['quorum_voters'], 'voter')}, {slowest}"

    def suspect_line(self) -> str | None:
        """The broker behind the under-replication with the evidence, or that there is no single one."""
        under = self.totals.get("under_replicated_partitions") or 0
        if not under:
            return None
        missing = {row["broker"]: row["missing_from_isr"] or 0 for row in self.brokers}
        suspect = self.totals.get("suspect_broker")
        partitions = counted(under, "under-replicated partition")
        if suspect is not None:
            return f"suspect: broker {suspect} is missing from {missing.get(suspect, 0):,} of {partitions}"
        shares = sorted(((count, broker) for broker, count in missing.items() if count), reverse=True)
        told = ", ".join(f"broker {broker} from {count:,}" for count, broker in shares[:_MOST_BROKERS_NAMED])
        return f"no single suspect: of {partitions} these are missing: {told}"

    def partition_problems(self) -> list[str]:
        """How many partitions have which problem, the worst first."""
        counts = (
            ("offline_partitions", "offline"),
            ("under_min_isr_partitions", "below min.insync.replicas"),
            ("under_replicated_partitions", "under-replicated"),
        )
        numbers = [(self.totals.get(name) or 0, what) for name, what in counts]
        return [f"{counted(number, 'partition')} {what}" for number, what in numbers if number]

    def problems(self) -> list[str]:
        """Everything that is wrong, in words. What could not be asked is wrong as well."""
        controller = [self.controller_line()] if self.no_controller else []
        overdue = [self.seen.overdue] if self.seen.overdue else []
        failed = failures_in_words(self.seen.failures)
        return [*controller, *self.partition_problems(), *self.disagreements(), *overdue, *failed]

    def disagreements(self) -> list[str]:
        """What JMX and the Kafka API have told differently for more than two polls."""
        told = self.totals.get("disagreement") or ""
        return [f"JMX and Kafka disagree: {words}" for words in told.split("; ") if words]

    def all_well_line(self) -> str:
        """What to say when no partition has a problem that the brokers know of."""
        if self.no_controller:
            return "replicas: all in sync when there last was a controller; nobody has updated this since"
        return "all partitions have all their replicas in sync"

    def preferred_line(self) -> str | None:
        """How many leaders are not where they belong; no problem by itself."""
        number = self.totals.get("not_preferred_leader_partitions")
        if not number:
            return None
        return f"{counted(number, 'partition')} not led by the preferred replica"

    def headline(self) -> str:
        """The cluster in one line."""
        totals = self.totals
        parts = [
            counted(totals[f"{noun}s"], noun)
            for noun in ("broker", "topic", "partition", "group")
            if totals.get(f"{noun}s") is not None
        ]
        if not self.seen.complete and totals.get("groups") is not None:
            parts[-1] = f"at least {parts[-1]}"
        known = sum(1 for row in self.brokers if row["registered"] is not None)
        if parts and totals.get("brokers") is not None and totals["brokers"] < known:
            parts[0] = f"{totals['brokers']} of {counted(known, 'broker')}"
        name = self.seen.cluster + (f" (id {one_line(totals['cluster_id'])})" if totals.get("cluster_id") else "")
        age = f", {duration_text(self.seen.age_seconds('cluster'))} ago" if self.seen.from_journal else ""
        return f"cluster {name}: {', '.join(parts) or 'nothing known'}{age}"

    def document(self) -> dict[str, Any]:
        """All of it, as JSON."""
        totals = self.totals
        controller = ("active_controllers", "controller", "quorum_epoch", "quorum_voters", "quorum_max_lag")
        return {
            "cluster": self.seen.cluster,
            "at": iso_time(self.seen.at_ms),
            **{name: value for name, value in totals.items() if name not in controller},
            "quorum": {name: totals.get(name) for name in controller},
            "broker_list": self.brokers,
            "bad_partitions": self.bad_partitions,
            "suspect": self.suspect_line(),
            "problems": self.problems(),
            "failures": [
                {"source": failed.source, "target": failed.target, "reason": failed.reason, "since_ms": failed.since_ms}
                for failed in self.seen.failures
            ],
        }


BROKER_COLUMNS = (
    TableColumn("BROKER", right=True),
    TableColumn("HOST", shrinks=True),
    TableColumn("RACK"),
    TableColumn("STATE"),
    TableColumn("LEADERS", right=True),
    TableColumn("REPLICAS", right=True),
    TableColumn("NOT-IN-SYNC", right=True),
    TableColumn("SIZE", right=True),
    TableColumn("DISK-FREE", right=True),
    TableColumn("CONTROLLER"),
)
PARTITION_COLUMNS = (
    TableColumn("TOPIC", shrinks=True),
    TableColumn("PARTITION", right=True),
    TableColumn("LEADER", right=True),
    TableColumn("REPLICAS", right=True),
    TableColumn("ISR", right=True),
    TableColumn("MIN-ISR", right=True),
    TableColumn("PROBLEM"),
)


def broker_cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The brokers as cells; what is not known is `-`."""
    return [
        [
            str(row["broker"]),
            row["host"] or "-",
            row["rack"] or "-",
            _state(row),
            *(_number(row[name]) for name in ("leaders", "partitions", "missing_from_isr")),
            *("-" if row[name] is None else size_text(row[name]) for name in ("size_bytes", "disk_free_bytes")),
            {True: "leader", False: "voter", None: "-"}[row["controller"]],
        ]
        for row in rows
    ]


def is_troubled(row: dict[str, Any]) -> bool:
    """Whether a broker needs a look."""
    return row["registered"] is False or row["answers"] is False or bool(row["missing_from_isr"])


def partition_cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The partitions as cells."""
    words = (("offline", "offline"), ("under_min_isr", "below min ISR"), ("under_replicated", "under-replicated"))
    return [
        [
            row["topic"],
            *(_number(row[name]) for name in ("partition", "leader", "replicas", "in_sync_replicas", "min_isr")),
            ", ".join(word for name, word in words if row[name]),
        ]
        for row in rows
    ]


def _state(row: dict[str, Any]) -> str:
    if row["registered"] is None:
        return "controller"  # a node of the quorum that is no broker
    if not row["registered"]:
        return "not registered"
    return "no answer" if row["answers"] is False else "up"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
