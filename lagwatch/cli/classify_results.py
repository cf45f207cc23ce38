"""What `lagwatch classify` answers: verdicts as Burrow would give them, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.cli.classify_input import ClassifySettings, GroupHistory, Window
from lagwatch.verdict.burrow_rules import Verdicts, classify
from lagwatch.verdict.group_rollup import roll_up
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Mode, Status
from lagwatch.verdict.why import why_group, why_partition
from lagwatch.windows import NO_END, UNKNOWN_LAG, Windows

ClassifyResult = dict[str, Any]
Name = tuple[str, int, Mapping[str, str]]  # topic, partition, owner

_NAMES = [status.name for status in Status]


def windows_of(given: Sequence[Window]) -> Windows:
    """Windows of any width as columns: each at the right of as many slots as the widest has."""
    rows, slots = len(given), max([window.width for window in given], default=0) or 1
    depth = max([len(window.ends) for window in given], default=0) or 1
    kept = np.array([len(window.slots) for window in given], np.int16)
    ends_kept = np.array([len(window.ends) for window in given], np.int16)

    def matrix(name: str) -> npt.NDArray[np.int64]:
        values = [slot.get(name) for window in given for slot in window.slots]
        known = [UNKNOWN_LAG if value is None else value for value in values]
        return _right_aligned(known, kept, slots, UNKNOWN_LAG)

    return Windows(
        offset=matrix("offset"),
        order=matrix("order"),
        timestamp=matrix("timestamp"),
        lag=matrix("lag"),
        width=np.array([window.width for window in given], np.int16),
        kept=kept,
        current_lag=np.array([window.current_lag for window in given], np.int64),
        ends=_right_aligned([end for window in given for end in window.ends], ends_kept, depth, NO_END),
        ends_kept=ends_kept,
        end_row=np.arange(rows, dtype=np.int32),
    )


def _right_aligned(values: Sequence[int], kept: npt.NDArray[np.int16], slots: int, empty: int) -> npt.NDArray[np.int64]:
    found = np.full((len(kept), slots), empty, np.int64)
    found[np.arange(slots) >= slots - kept[:, None]] = values
    return np.asfortranarray(found)  # the rules go slot by slot


def partition_verdicts(given: Sequence[tuple[ClassifySettings, Window]]) -> list[ClassifyResult]:
    """The answers for single partitions."""
    windows = windows_of([window for _, window in given])
    judged = ClassifiedWindow(windows, [settings for settings, _ in given])
    return [{**answer, "why": judged.why(row)} for row, answer in enumerate(judged.answers())]


def group_verdicts(given: Sequence[tuple[ClassifySettings, GroupHistory]]) -> list[ClassifyResult]:
    """The answers for groups."""
    partitions = [
        (line, settings, topic, number, window)
        for line, (settings, group) in enumerate(given)
        for topic, number, window in group.partitions or ()
    ]
    judged = ClassifiedWindow(
        windows_of([window for *_, window in partitions]), [settings for _, settings, *_ in partitions]
    )
    names = [(topic, number, window.owner) for _, _, topic, number, window in partitions]
    line = np.array([line for line, *_ in partitions], np.int64)
    return judged.group_answers(names, line, [group.partitions is not None for _, group in given])


class ClassifiedWindow:
    """Windows with their verdicts, each judged by the settings of its line."""

    def __init__(self, windows: Windows, settings: Sequence[ClassifySettings]) -> None:
        self._windows = windows
        self._now = [given.now_s for given in settings]
        self._policy = Policy(
            np.array([given.allowed_lag for given in settings], np.int64),
            np.array([given.minimum_complete for given in settings], np.float32),
            np.full(len(settings), Mode.BURROW, np.uint8),
        )
        self._verdicts: Verdicts = classify(windows, self._policy, np.array(self._now, np.int64))

    def why(self, row: int) -> str:
        """The sentence for a row."""
        return why_partition(self._windows, self._verdicts, self._policy, row, self._now[row])

    def answers(self) -> list[ClassifyResult]:
        """The answer for each row."""
        verdicts = self._verdicts
        columns = zip(
            verdicts.status.tolist(),
            shares(verdicts.complete),
            self._windows.current_lag.tolist(),
            self._slots(verdicts.start),
            self._slots(verdicts.end),
            strict=True,
        )
        return [
            {"status": _NAMES[status], "complete": complete, "current_lag": lag, "start": start, "end": end}
            for status, complete, lag, start, end in columns
        ]

    def group_answers(
        self, names: Sequence[Name], group: npt.NDArray[np.int64], known: Sequence[bool]
    ) -> list[ClassifyResult]:
        """The answer for each group; rows stand by group, and are named."""
        partitions = [
            {"topic": topic, "partition": number, **owner, **answer}
            for (topic, number, owner), answer in zip(names, self.answers(), strict=True)
        ]
        found = roll_up(self._verdicts, self._windows.current_lag, group, np.array(known, dtype=bool))
        completes = shares(found.complete)
        last = np.cumsum(found.partitions).tolist()
        answers = []
        for at, count in enumerate(found.partitions.tolist()):
            row = int(found.worst_row[at])
            worst = f"{names[row][0]}/{names[row][1]} is {self.why(row)}" if found.not_ok[at] else ""
            answers.append(
                {
                    "status": _NAMES[found.status[at]],
                    "complete": completes[at],
                    "partition_count": count,
                    "totallag": int(found.total_lag[at]) % 2**64,  # Burrow's sum has no sign
                    "maxlag": partitions[int(found.max_lag_row[at])] if count else None,
                    "partitions": partitions[last[at] - count : last[at]],
                    "why": why_group(found, at, worst),
                }
            )
        return answers

    def _slots(self, slot: npt.NDArray[np.int16]) -> list[ClassifyResult | None]:
        """One slot of each row, None where the row has no commits."""
        rows = np.flatnonzero(slot >= 0)
        at = (rows, slot[rows])
        columns = (getattr(self._windows, name)[at].tolist() for name in ("offset", "order", "timestamp", "lag"))
        found: list[ClassifyResult | None] = [None] * len(slot)
        for row, values in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
            found[row] = slot_answer(*values)
        return found


def slot_answer(offset: int, order: int, timestamp: int, lag: int) -> ClassifyResult:
    """A slot as Burrow shows it."""
    return {
        "offset": offset, "order": order, "timestamp": timestamp, "lag": None if lag == UNKNOWN_LAG else lag,
    }  # fmt: skip


def shares(complete: npt.NDArray[np.float32]) -> list[float]:
    """32-bit floats as short as they can be told apart: 0.33333334, and 1 for 1."""
    distinct, at = np.unique(complete, return_inverse=True)
    written = [float(str(value)) for value in distinct]
    short = [int(value) if value.is_integer() else value for value in written]
    return [short[position] for position in at.tolist()]
