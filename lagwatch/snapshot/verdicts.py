"""Reads the verdicts of groups and partitions from the data of a cluster, most urgent first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lagwatch.batch import Texts
from lagwatch.evaluation import EvaluatedRows
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import KAFKA
from lagwatch.text import duration_text
from lagwatch.verdict.forecast import NEVER
from lagwatch.verdict.rules import BY_NUMBER
from lagwatch.verdict.status import SEVERITY, Status

GROUP_FIELDS = (
    "status_text", "why", "stale", "age_seconds", "state", "type", "members", "partitions", "not_ok_partitions",
    "abandoned_partitions", "stale_partitions", "complete", "total_lag", "max_lag", "unknown_lag_partitions",
    "lost_messages", "max_lag_seconds", "max_lag_seconds_low", "max_lag_seconds_high", "consume_rate", "produce_rate",
    "catch_up_seconds", "falling_behind", "loss_seconds",
)  # fmt: skip
PARTITION_FIELDS = (
    "committed_offset", "lag", "lag_seconds", "lag_seconds_low", "lag_seconds_high", "lag_source",
    "seconds_since_moved", "lost_messages", "rule", "complete", "abandoned", "stale", "age_seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """One partition of a group. Without its window, rates, forecast and `why` are None."""

    topic: str
    partition: int
    status: str | None
    why: str | None
    about: dict[str, Any]
    consume_rate: float | None = None
    produce_rate: float | None = None
    catch_up_seconds: float | None = None
    loss_seconds: float | None = None
    row: int | None = None  # in the windows


@dataclass(frozen=True)
class GroupVerdict:
    """One group; its fields are those of `consumer_group`."""

    cluster: str
    group: str
    about: dict[str, Any]
    stale: bool
    age_seconds: float
    watched_seconds: float | None = None
    partitions: list[PartitionVerdict] = field(default_factory=list)

    @property
    def status(self) -> str | None:
        """Its status; None where nothing was committed."""
        status: str | None = self.about["status_text"]
        return status

    @property
    def lag(self) -> int | None:
        """Its known lag; None when no partition's lag is known."""
        about = self.about
        if about["partitions"] and about["unknown_lag_partitions"] == about["partitions"]:
            return None
        total: int | None = about["total_lag"]
        return total

    @property
    def urgency(self) -> tuple[Any, ...]:
        """Sorts the worst first: by status, then by time lag."""
        lag_seconds = self.about["max_lag_seconds"] or self.about["max_lag_seconds_low"] or 0.0
        return -severity(self.status), not self.stale, -lag_seconds, -(self.lag or 0), self.cluster, self.group

    @property
    def why(self) -> str:
        """The sentence; for an unsure OK, what makes it unsure."""
        if self.status is None:
            return "nothing committed"
        if self.unsure:
            return (
                f"did not move in {duration_text(self.watched_seconds or 0.0)} of observation: too short for a verdict"
            )
        return self.about["why"] or "-"

    @cached_property
    def unsure(self) -> bool:
        """Whether it has lag and did not move under observation: OK then only means that the observation was short."""
        if self.watched_seconds is None or self.status != Status.OK.name or not self.lag:
            return False
        behind = [row for row in self.partitions if row.about["lag"]]
        return all((row.about["seconds_since_moved"] or 0) >= self.watched_seconds - 1 for row in behind)


def read_verdicts(
    view: ClusterView, groups: NamePatterns, topics: NamePatterns, *, with_partitions: bool
) -> list[GroupVerdict]:
    """The selected groups; with topics, those with commits for one of them."""
    age = view.age_seconds("consumer_group", KAFKA) if view.from_journal else 0.0
    found = {}
    for name, *values in view.columns("consumer_group", "group", *GROUP_FIELDS):
        if groups(name):
            about = dict(zip(GROUP_FIELDS, values, strict=True))
            stale = bool(about["stale"] or about["stale_partitions"]) or view.overdue is not None
            own_age = (about["age_seconds"] or 0.0) + age
            found[name] = GroupVerdict(view.cluster, name, about, stale, round(own_age, 1), view.watched_seconds)
    if with_partitions or topics.names or view.watched_seconds is not None:
        for name, verdict in _partitions(view, found, topics):
            found[name].partitions.append(verdict)
    if topics.names:
        found = {name: group for name, group in found.items() if group.partitions}
    return list(found.values())


def worst_partitions_first(rows: Sequence[PartitionVerdict]) -> list[PartitionVerdict]:
    """By status, then by lag."""
    return sorted(rows, key=lambda row: (-severity(row.status), -(row.about["lag"] or 0), row.topic, row.partition))


def _partitions(
    view: ClusterView, groups: dict[str, GroupVerdict], topics: NamePatterns
) -> Iterator[tuple[str, PartitionVerdict]]:  # fmt: skip
    names = ("group", "topic", "partition", "status", *PARTITION_FIELDS)
    rows = [
        row for row in view.columns("consumer_lag", *names) if row[0] in groups and topics(row[1])
    ]  # fmt: skip
    window_rows = _window_rows(view.evaluated, rows)
    for (group, topic, partition, status, *values), window_row in zip(rows, window_rows, strict=True):
        about = dict(zip(PARTITION_FIELDS, values, strict=True))
        name = None if status is None else Status(status).name
        yield group, _with_window(PartitionVerdict(topic, partition, name, None, about), view.evaluated, window_row)


def _window_rows(evaluated: EvaluatedRows | None, rows: Sequence[tuple[Any, ...]]) -> list[int]:
    """The index of each row in the windows, -1 for none."""
    if evaluated is None or not rows:
        return [-1] * len(rows)
    groups, topics = (_texts([row[at] for row in rows]) for at in (0, 1))
    found: list[int] = evaluated.store.find_rows(groups, topics, np.array([row[2] for row in rows], np.int32)).tolist()
    return found


def _texts(names: Sequence[str]) -> Texts:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return Texts(np.array([numbers[name] for name in names], np.int32), list(numbers))


def _with_window(row: PartitionVerdict, evaluated: EvaluatedRows | None, window_row: int) -> PartitionVerdict:
    if evaluated is None or window_row < 0:
        return row
    ahead = evaluated.forecast
    catch_up, loss = float(ahead.catch_up_seconds[window_row]), float(ahead.loss_seconds[window_row])
    return PartitionVerdict(
        row.topic, row.partition, row.status, _why(row, evaluated, window_row), row.about,
        float(ahead.consume_rate[window_row]), float(ahead.produce_rate[window_row]),
        None if catch_up == NEVER else round(catch_up, 1), None if loss == NEVER else round(loss, 1), window_row,
    )  # fmt: skip


def _why(row: PartitionVerdict, evaluated: EvaluatedRows, window_row: int) -> str:
    """The sentence, unless the agent used settings that are unknown here: its numbers would be wrong."""
    rule = row.about["rule"]
    if rule is None or rule == evaluated.verdicts.rule[window_row]:
        return evaluated.why(window_row)
    return (
        f"rule {rule} ({BY_NUMBER[rule].name}) decided with the settings of the agent; to use them, add --config FILE"
    )


def severity(status: str | None) -> int:
    """How bad a status is; none is the least."""
    return SEVERITY[Status[status]] if status else 0
