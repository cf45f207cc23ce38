"""Which partitions the members of groups are assigned, from the newest rows of `group_member`."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from lagwatch.assignments import parse_assignment
from lagwatch.batch import Batch, Texts
from lagwatch.columns import strings_of


class Assigned:
    """The assignments of one cluster. Members change seldom, so their texts are read only when they do."""

    def __init__(self) -> None:
        self._rows: object = None
        self._partitions: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}  # by number, false beyond the last
        self._groups: set[str] = set()

    def observe(self, members: Batch) -> None:
        """Take in the members of all groups."""
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
        """Which of these partitions a member of the group is assigned, and which are of topics the group abandoned.

        Abandoned is a topic that no member is assigned though members are assigned others. A group none of whose
        assignments can be read (Connect puts its own bytes there) abandons nothing.
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
