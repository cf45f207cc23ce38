"""Keeps the last status of every group, detects changes, and builds the verdict columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagwatch.batch import Batch, Column
from lagwatch.columns import strings_of
from lagwatch.evaluation import GroupEvaluation
from lagwatch.pipeline.state.commits import Totals
from lagwatch.text import counted
from lagwatch.verdict.status import Status


@dataclass(frozen=True, slots=True)
class Changed:
    """A group whose status changed; `before` is empty for a new group."""

    group: str
    before: str
    after: str
    why: str


@dataclass(frozen=True, slots=True)
class BeganToLose:
    """A group that began to lose unread messages to retention."""

    group: str
    messages: int

    @property
    def why(self) -> str:
        """One sentence."""
        return f"retention deleted {counted(self.messages, 'message')} before group {self.group} read them"


class GroupStatuses:
    """Tracks the statuses of one cluster's groups."""

    def __init__(self) -> None:
        self._status: dict[str, str] = {}
        self._losing: set[str] = set()

    def observe(self, groups: Sequence[str], evaluated: Mapping[str, GroupEvaluation]) -> list[Changed]:
        """Update with the verdicts of a poll; returns the changes. A new group that is OK is not a change."""
        status = {group: evaluated[group].status.name for group in groups if group in evaluated}
        changed = [
            Changed(group, self._status.get(group, ""), now, evaluated[group].why)
            for group, now in status.items()
            if now != self._status.get(group, Status.OK.name)
        ]
        self._status = status
        return changed

    def began_to_lose(self, totals: Totals) -> list[BeganToLose]:
        """Groups that lose messages now and did not in the previous poll."""
        losing = {group: lost for group, lost in zip(totals.groups, totals.lost.tolist(), strict=True) if lost}
        began = [BeganToLose(group, lost) for group, lost in losing.items() if group not in self._losing]
        self._losing = set(losing)
        return began

    def restore(self, groups: Batch) -> None:
        """Restore the last statuses from the journal."""
        names, texts = strings_of(groups.rows, "group"), strings_of(groups.rows, "status_text")
        self._status = {name: text for name, text in zip(names, texts, strict=True) if text}
        lost = groups.rows.column("lost_messages").to_pylist()
        self._losing = {name for name, messages in zip(names, lost, strict=True) if messages}


def verdict_columns(groups: Sequence[str], evaluated: Mapping[str, GroupEvaluation]) -> dict[str, Column]:
    """The verdicts as columns of `consumer_group`; null for groups without commits."""
    found = [evaluated.get(group) for group in groups]

    def column(value: str) -> list[object]:
        return [None if one is None else getattr(one, value) for one in found]

    return {
        "status": [None if one is None else int(one.status) for one in found],
        "status_text": [None if one is None else one.status.name for one in found],
        "why": column("why"),
        "complete": column("complete"),
        "not_ok_partitions": column("not_ok"),
        "abandoned_partitions": column("abandoned"),
        "consume_rate": column("consume_rate"),
        "produce_rate": column("produce_rate"),
        "catch_up_seconds": column("catch_up_seconds"),
        "falling_behind": [None if one is None else one.catch_up_seconds is None for one in found],
        "loss_seconds": column("loss_seconds"),
    }
