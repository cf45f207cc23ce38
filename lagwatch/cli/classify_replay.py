"""Replays histories of groups through the window store, many histories at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Texts
from lagwatch.cli.classify_input import ClassifySettings, CommitHistory
from lagwatch.cli.classify_results import ClassifiedWindows, ClassifyResult, slot_json
from lagwatch.windows import AssignedPartitions, Commits, EndOffsets, Windows, WindowStore

HistoryEvent = Mapping[str, Any]
_Owners = dict[tuple[str, int], dict[str, str]]


def storage_verdicts(given: Sequence[tuple[ClassifySettings, CommitHistory]]) -> list[ClassifyResult]:
    """The results for histories: the windows kept at the end, and their verdicts."""
    by_slots = defaultdict(list)  # a store has windows of one width
    for line, (_, history) in enumerate(given):
        by_slots[history.intervals].append(line)
    results: dict[int, ClassifyResult] = {}
    for slots, lines in by_slots.items():
        replay = _Replay(slots, [given[line] for line in lines])
        results.update(zip(lines, replay.results(), strict=True))
    return [results[line] for line in range(len(given))]


class _Replay:
    """Histories side by side in one store, each with its own group and topics, so that they do not interact."""

    def __init__(self, slots: int, given: Sequence[tuple[ClassifySettings, CommitHistory]]) -> None:
        self._given = given
        self._store = WindowStore(slots)
        self._owners: list[_Owners] = [{} for _ in given]
        self._oldest_ms = np.array([(settings.now_s - history.expire_group_s) * 1000 for settings, history in given])
        self._distance_ms = np.array([history.min_distance_s * 1000 for _, history in given])
        # A run of events of one type is one batch for the store, with the runs of all histories in it.
        runs = [[list(run) for _, run in groupby(h.events, lambda event: str(event["type"]))] for _, h in given]
        for step in range(max(map(len, runs), default=0)):
            by_type: dict[str, list[tuple[int, HistoryEvent]]] = defaultdict(list)
            for line, of_line in enumerate(runs):
                if step < len(of_line):
                    by_type[of_line[step][0]["type"]] += [(line, event) for event in of_line[step]]
            for kind, events in by_type.items():
                getattr(self, f"_{kind}")(events)
        last = self._store.last_commits()
        self._found = [
            str(line) in last and last[str(line)] >= oldest for line, oldest in enumerate(self._oldest_ms.tolist())
        ]

    def results(self) -> list[ClassifyResult]:
        """The result of each history."""
        names = self._store.row_names()
        groups, topics = self._store.groups, self._store.topics
        of_row = sorted(
            (line, topics.name(topic).split("/", 1)[1], partition, row)
            for line, topic, partition, row in zip(
                (int(groups.name(number)) for number in names.group.tolist()),
                names.topic.tolist(),
                names.partition.tolist(),
                names.row.tolist(),
                strict=True,
            )
            if self._found[line]
        )
        windows = self._store.windows().take(np.array([row for *_, row in of_row], np.intp))
        classified = ClassifiedWindows(windows, [self._given[line][0] for line, *_ in of_row])
        named = [(topic, number, self._owner_of(line, topic, number)) for line, topic, number, _ in of_row]
        line_of_row = np.array([line for line, *_ in of_row], np.int64)
        evaluations = classified.group_results(named, line_of_row, self._found)
        kept: list[dict[str, list[ClassifyResult]]] = [defaultdict(list) for _ in self._given]
        for row, ((line, *_), (topic, _, owner)) in enumerate(zip(of_row, named, strict=True)):
            kept[line][topic].append({**_kept_window(windows, row), **owner})
        return [
            {"found": found, "windows": kept[line], "why": evaluation.pop("why"), "evaluation": evaluation}
            for line, (found, evaluation) in enumerate(zip(self._found, evaluations, strict=True))
        ]

    def _owner_of(self, line: int, topic: str, partition: int) -> dict[str, str]:
        owner = self._owners[line].get((topic, partition), {})
        return {name: text for name, text in owner.items() if text}

    def _broker(self, events: Sequence[tuple[int, HistoryEvent]]) -> None:
        count, end = _column(events, "partition_count"), _column(events, "offset")
        self._store.observe_ends(EndOffsets(_topics(events), _partitions(events), count, end))

    def _commit(self, events: Sequence[tuple[int, HistoryEvent]]) -> None:
        line = np.array([line for line, _ in events])
        commits = Commits(
            group=_groups(events),
            topic=_topics(events),
            partition=_partitions(events),
            offset=_column(events, "offset"),
            order=_column(events, "order"),
            timestamp=_column(events, "timestamp"),
        )
        self._store.observe_commits(commits, oldest_ms=self._oldest_ms[line], min_distance_ms=self._distance_ms[line])

    def _owner(self, events: Sequence[tuple[int, HistoryEvent]]) -> None:
        has_row = self._store.observe_assigned(
            AssignedPartitions(_groups(events), _topics(events), _partitions(events))
        )
        for (line, event), taken in zip(events, has_row.tolist(), strict=True):
            if taken:
                owner = {name: event[name] for name in ("owner", "client_id")}
                self._owners[line][event["topic"], event["partition"]] = owner

    def _clear_owners(self, events: Sequence[tuple[int, HistoryEvent]]) -> None:
        for line, _ in events:
            self._owners[line] = {}

    def _delete_topic(self, events: Sequence[tuple[int, HistoryEvent]]) -> None:
        self._store.drop_topics(f"{line}/{event['topic']}" for line, event in events)
        self._drop_owners(events)

    def _delete_group(self, events: Sequence[tuple[int, HistoryEvent]]) -> None:
        whole = [str(line) for line, event in events if "topic" not in event]
        pairs = [(str(line), f"{line}/{event['topic']}") for line, event in events if "topic" in event]
        self._store.drop_groups(whole)
        self._store.drop_topic_of_groups(pairs)
        self._drop_owners(events)

    def _drop_owners(self, events: Iterable[tuple[int, HistoryEvent]]) -> None:
        for line, event in events:
            owners = self._owners[line]
            gone = [name for name in owners if event.get("topic", name[0]) == name[0]]
            for name in gone:
                del owners[name]


def _kept_window(windows: Windows, row: int) -> ClassifyResult:
    """A window in the form in which Burrow shows what it stores."""
    width, kept = int(windows.width[row]), int(windows.kept[row])
    first = windows.slots - kept
    columns = (getattr(windows, name)[row, first:].tolist() for name in ("offset", "order", "timestamp", "lag"))
    filled = [slot_json(*values) for values in zip(*columns, strict=True)]
    end_row = int(windows.end_row[row])
    ends = windows.ends[end_row].tolist()[windows.ends.shape[1] - int(windows.ends_kept[end_row]) :]
    return {
        "offsets": [None] * (width - kept) + filled,
        "broker_offsets": ends if end_row >= 0 else [],
        "current_lag": int(windows.current_lag[row]),
    }


def _groups(events: Sequence[tuple[int, HistoryEvent]]) -> Texts:
    return _texts([str(line) for line, _ in events])


def _topics(events: Sequence[tuple[int, HistoryEvent]]) -> Texts:
    return _texts([f"{line}/{event['topic']}" for line, event in events])


def _texts(names: Sequence[str]) -> Texts:
    code = {name: position for position, name in enumerate(dict.fromkeys(names))}
    return Texts(np.array([code[name] for name in names], np.int32), list(code))


def _partitions(events: Sequence[tuple[int, HistoryEvent]]) -> npt.NDArray[np.int32]:
    return np.array([event["partition"] for _, event in events], np.int32)


def _column(events: Sequence[tuple[int, HistoryEvent]], name: str) -> npt.NDArray[np.int64]:
    return np.array([event[name] for _, event in events], np.int64)
