"""Rolls up the verdicts on partitions to a verdict on each group, with a sentence that says why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.evaluation.results import GroupEvaluation
from lagwatch.verdict.classify import Verdicts
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.forecast import NEVER, Forecast
from lagwatch.verdict.group_rollup import NO_ROW, GroupVerdicts, roll_up
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.status import Mode, Status, VerdictRule
from lagwatch.verdict.why import why_group, why_kept, why_partition, with_status
from lagwatch.windows import RowNames, Windows, WindowStore


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """The rows of a store as evaluated after a poll, with everything the explanations need."""

    store: WindowStore
    windows: Windows
    verdicts: Verdicts
    is_kept: npt.NDArray[np.bool_]  # the verdict is an earlier one, and the window would now give another
    facts: Facts
    policy: Policy
    forecast: Forecast
    now_ms: int

    def why(self, row: int) -> str:
        """Why one row has its verdict, without the status."""
        rule = int(self.verdicts.rule[row])
        return why_kept(rule) if self.is_kept[row] else why_partition(rule, self.rule_inputs(row))

    def rule_inputs(self, row: int) -> RuleInputs:
        """The inputs of the rules for one row."""
        return RuleInputs.of(self.windows, self.facts, self.policy, row, self.now_ms)


def evaluate_groups(evaluated: EvaluatedRows) -> dict[str, GroupEvaluation]:
    """The verdict on each group that has rows."""
    names, store = evaluated.store.row_names(), evaluated.store
    # Partitions without commits count in Burrow mode only; abandoned topics do not count in lagwatch mode.
    is_burrow = evaluated.policy.mode[names.row] == Mode.BURROW
    counts = is_burrow | (
        (evaluated.verdicts.rule[names.row] != VerdictRule.ABANDONED) & (evaluated.windows.width[names.row] > 0)
    )
    begins = np.r_[True, names.group[1:] != names.group[:-1]] if len(names.group) else np.zeros(0, dtype=bool)
    numbers, group = names.group[begins], np.cumsum(begins) - 1  # rows are sorted by group
    abandoned = np.bincount(group[evaluated.verdicts.rule[names.row] == VerdictRule.ABANDONED], minlength=len(numbers))
    by_lagwatch = np.zeros(len(numbers), dtype=bool)
    by_lagwatch[group[~is_burrow]] = True
    of_group = RowNames(names.group[counts], names.topic[counts], names.partition[counts], names.row[counts])
    row, group = of_group.row, group[counts]
    known = np.ones(len(numbers), dtype=bool)
    rolled = roll_up(_take(evaluated.verdicts, row), evaluated.windows.current_lag[row], group, known, by_lagwatch)
    sums = _Sums.of(evaluated.forecast, row, group, len(numbers))
    found = {}
    for place, number in enumerate(numbers.tolist()):
        status = Status(rolled.status[place])
        found[store.groups.name(number)] = GroupEvaluation(
            status=status,
            why=_why(evaluated, rolled, place, of_group),
            complete=round(float(rolled.complete[place]), 3),
            not_ok=int(rolled.not_ok[place]),
            abandoned=int(abandoned[place]),
            consume_rate=float(sums.consume[place]),
            produce_rate=float(sums.produce[place]),
            catch_up_seconds=_unless_never(sums.catch_up[place]),
            loss_seconds=_unless_never(sums.loss[place]),
        )
    return found


@dataclass(frozen=True, slots=True)
class _Sums:
    """Forecasts by group: rates are summed; a group catches up with its last partition, and loses with its first."""

    consume: npt.NDArray[np.float64]
    produce: npt.NDArray[np.float64]
    catch_up: npt.NDArray[np.float64]
    loss: npt.NDArray[np.float64]

    @classmethod
    def of(cls, forecast: Forecast, row: npt.NDArray[np.int32], group: npt.NDArray[np.intp], groups: int) -> _Sums:
        catch_up, loss = np.zeros(groups), np.full(groups, NEVER)
        np.maximum.at(catch_up, group, forecast.catch_up_seconds[row])
        np.minimum.at(loss, group, forecast.loss_seconds[row])
        consume, produce = np.zeros(groups), np.zeros(groups)
        np.add.at(consume, group, forecast.consume_rate[row])
        np.add.at(produce, group, forecast.produce_rate[row])
        return cls(consume, produce, catch_up, loss)


def _why(evaluated: EvaluatedRows, rolled: GroupVerdicts, place: int, names: RowNames) -> str:
    worst, at = "", int(rolled.worst_row[place])
    if rolled.not_ok[place] and at != NO_ROW:
        partition = f"{evaluated.store.topics.name(int(names.topic[at]))}/{names.partition[at]}"
        row = int(names.row[at])
        worst = f"{partition} is {with_status(Status(evaluated.verdicts.status[row]).name, evaluated.why(row))}"
    return why_group(rolled, place, worst)


def _take(verdicts: Verdicts, rows: npt.NDArray[np.int32]) -> Verdicts:
    return Verdicts(*(getattr(verdicts, name)[rows] for name in Verdicts.__slots__))


def _unless_never(seconds: np.float64) -> float | None:
    return None if seconds == NEVER else float(seconds)
