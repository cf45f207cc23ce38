"""Results of `lagwatch classify`: Burrow's verdicts with the reason.

Unlike the `why` column of tables, `why` in these results starts with the status: it has done so since the first version of
the command, and scripts compare it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.cli.classify_input import ClassifySettings, GroupHistory, Window
from lagwatch.verdict.classify import Verdicts, classify_burrow
from lagwatch.verdict.group_rollup import roll_up
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.status import Mode, Status
from lagwatch.verdict.why import why_group, why_partition, with_status
from lagwatch.windows import UNKNOWN_LAG, Windows
from lagwatch.windows.build import windows_of

ClassifyResult = dict[str, Any]
Name = tuple[str, int, Mapping[str, str]]  # topic, partition, owner

_NAMES = [status.name for status in Status]


def partition_verdicts(given: Sequence[tuple[ClassifySettings, Window]]) -> list[ClassifyResult]:
    """The results for single partitions."""
    windows = windows_of([window for _, window in given])
    classified = ClassifiedWindows(windows, [settings for settings, _ in given])
    return [{**result, "why": classified.why(row)} for row, result in enumerate(classified.results())]


def group_verdicts(given: Sequence[tuple[ClassifySettings, GroupHistory]]) -> list[ClassifyResult]:
    """The results for groups."""
    partitions = [
        (line, settings, topic, number, window)
        for line, (settings, group) in enumerate(given)
        for topic, number, window in group.partitions or ()
    ]
    classified = ClassifiedWindows(
        windows_of([window for *_, window in partitions]), [settings for _, settings, *_ in partitions]
    )
    names = [(topic, number, window.owner) for _, _, topic, number, window in partitions]
    line = np.array([line for line, *_ in partitions], np.int64)
    return classified.group_results(names, line, [group.partitions is not None for _, group in given])


class ClassifiedWindows:
    """Windows with their verdicts, each evaluated with the settings of its line."""

    def __init__(self, windows: Windows, settings: Sequence[ClassifySettings]) -> None:
        self._windows = windows
        self._now = [given.now_s for given in settings]
        self._policy = Policy(
            np.array([given.allowed_lag for given in settings], np.int64),
            np.array([given.minimum_complete for given in settings], np.float32),
            np.full(len(settings), Mode.BURROW, np.uint8),
        )
        self._verdicts: Verdicts = classify_burrow(windows, self._policy, np.array(self._now, np.int64))

    def why(self, row: int) -> str:
        """The sentence for a row, after its status."""
        inputs = RuleInputs.of_burrow(self._windows, self._policy, row, self._now[row] * 1000)
        return with_status(_NAMES[self._verdicts.status[row]], why_partition(int(self._verdicts.rule[row]), inputs))

    def results(self) -> list[ClassifyResult]:
        """The result for each row."""
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

    def group_results(
        self, names: Sequence[Name], group: npt.NDArray[np.int64], known: Sequence[bool]
    ) -> list[ClassifyResult]:
        """The result for each group; rows are sorted by group, and `names` names them."""
        partitions = [
            {"topic": topic, "partition": number, **owner, **result}
            for (topic, number, owner), result in zip(names, self.results(), strict=True)
        ]
        found = roll_up(self._verdicts, self._windows.current_lag, group, np.array(known, dtype=bool))
        completes = shares(found.complete)
        last = np.cumsum(found.partitions).tolist()
        results = []
        for at, count in enumerate(found.partitions.tolist()):
            row = int(found.worst_row[at])
            worst = f"{names[row][0]}/{names[row][1]} is {self.why(row)}" if found.not_ok[at] else ""
            results.append(
                {
                    "status": _NAMES[found.status[at]],
                    "complete": completes[at],
                    "partition_count": count,
                    "totallag": int(found.total_lag[at]) % 2**64,  # Burrow's sum has no sign
                    "maxlag": partitions[int(found.max_lag_row[at])] if count else None,
                    "partitions": partitions[last[at] - count : last[at]],
                    "why": with_status(_NAMES[found.status[at]], why_group(found, at, worst)),
                }
            )
        return results

    def _slots(self, slot: npt.NDArray[np.int16]) -> list[ClassifyResult | None]:
        """One slot of each row, None where the row has no commits."""
        rows = np.flatnonzero(slot >= 0)
        at = (rows, slot[rows])
        columns = (getattr(self._windows, name)[at].tolist() for name in ("offset", "order", "timestamp", "lag"))
        found: list[ClassifyResult | None] = [None] * len(slot)
        for row, values in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
            found[row] = slot_json(*values)
        return found


def slot_json(offset: int, order: int, timestamp: int, lag: int) -> ClassifyResult:
    """A slot as Burrow shows it."""
    return {
        "offset": offset, "order": order, "timestamp": timestamp, "lag": None if lag == UNKNOWN_LAG else lag,
    }  # fmt: skip


def shares(complete: npt.NDArray[np.float32]) -> list[float]:
    """32-bit floats in their shortest distinct form: 0.33333334, and 1 for 1."""
    distinct, at = np.unique(complete, return_inverse=True)
    written = [float(str(value)) for value in distinct]
    short = [int(value) if value.is_integer() else value for value in written]
    return [short[position] for position in at.tolist()]
