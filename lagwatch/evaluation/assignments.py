"""Looks up which partitions are assigned to members of their group, from the newest rows of `group_member`."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from lagwatch.assignment_text import parse_assignment
from lagwatch.batch import Batch, Texts
from lagwatch.columns import strings_of


class GroupAssignments:
    """The assignments of one cluster. Members rarely change, so their texts are parsed only when they do."""

    def __init__(self) -> None:
        self._rows: object = None
        self._partitions: dict[
            tuple[str, str], npt.NDArray[np.bool_]
        ] = {}  # by partition number; the last entry is false
        self._groups: set[str] = set()

    def observe(self, members: Batch) -> None:
        """Update the members of all groups."""
        if members.rows == self._rows:
            return
        self._rows = members.rows
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        rows = members.rows
        for group, text in zip(strings_of(rows, "group"), strings_of(rows, "assignment"), strict=True):
            for topic, partitions in parse_assignment(text or ""):
                found[group, topic] += partitions
        self._partitions = {pair: _marked(numbers) for pair, numbers in found.items()}
        self._groups = {group for group, _ in found}

    def look_up(
        self, group: Texts, topic: Texts, partition: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which partitions are assigned to a member of the group, and which belong to topics the group abandoned.

        A topic is abandoned if members are assigned other topics but not this one. A group whose assignments cannot be
        parsed (Connect has its own format) abandons nothing.
        """
        owned, abandoned = np.zeros(len(partition), dtype=bool), np.zeros(len(partition), dtype=bool)
        with_members = np.array([name in self._groups for name in group.values], dtype=bool)
        rows = np.flatnonzero(with_members[group.codes]) if len(partition) else np.zeros(0, np.intp)
        pairs = group.codes[rows].astype(np.int64) * len(topic.values) + topic.codes[rows]
        order = np.argsort(pairs, kind="stable")
        for run in np.split(rows[order], np.flatnonzero(np.diff(pairs[order])) + 1):
            if not len(run):
                continue
            marked = self._partitions.get((group.values[group.codes[run[0]]], topic.values[topic.codes[run[0]]]))
            if marked is None:
                abandoned[run] = True
            else:
                owned[run] = marked[np.minimum(partition[run], len(marked) - 1)]
        return owned, abandoned


def _marked(numbers: list[int]) -> npt.NDArray[np.bool_]:
    marked = np.zeros(max(numbers) + 2, dtype=bool)
    marked[numbers] = True
    return marked
