"""Explains the verdict on one partition: its window, the log ends, and each rule with the numbers it compares. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lagwatch.evaluation import EvaluatedRows
from lagwatch.snapshot.lag import GroupMember
from lagwatch.snapshot.verdicts import PartitionVerdict
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.rule_outcomes import rule_outcomes
from lagwatch.verdict.rules import RULES, RuleSpec


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule: `answer` is yes, no or off. `is_reached` is False for rules after the one that decides."""

    spec: RuleSpec
    answer: str
    decides: bool
    is_reached: bool
    numbers: str


def rule_lines(evaluated: EvaluatedRows, row: int, rules: Sequence[RuleSpec] = RULES) -> list[RuleLine]:
    """Every rule in order. A stale partition keeps its verdict, so another rule may have decided it."""
    inputs = evaluated.rule_inputs(row)
    outcomes = rule_outcomes(evaluated.windows, evaluated.facts, evaluated.policy, row, evaluated.now_ms, rules)
    lines, is_reached = [], True
    for outcome in outcomes:
        spec = outcome.spec
        answer = "off" if spec.is_off(inputs) else "yes" if outcome.holds else "no"
        lines.append(RuleLine(spec, answer, outcome.decides, is_reached, spec.numbers(inputs)))
        is_reached &= not outcome.decides
    return lines


@dataclass(frozen=True, slots=True)
class Slot:
    """One commit of a window, with the lag at that time; `step` is the difference to the offset before."""

    number: int
    at_ms: int
    offset: int
    step: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class ExplainedPartition:
    """One partition, with everything its verdict is based on."""

    verdict: PartitionVerdict
    slots: list[Slot]
    ends: list[tuple[int, int]]  # ms and log end, oldest first
    rules: list[RuleLine]
    inputs: RuleInputs
    now_ms: int
    owner: GroupMember | None

    @classmethod
    def of(
        cls, verdict: PartitionVerdict, evaluated: EvaluatedRows, row: int, owner: GroupMember | None
    ) -> ExplainedPartition:
        """Explain one row."""
        return cls(
            verdict, slots_of(evaluated, row), _ends(evaluated, row), rule_lines(evaluated, row), evaluated.rule_inputs(row),
            evaluated.now_ms, owner,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """`topic/partition`."""
        return f"{self.verdict.topic}/{self.verdict.partition}"


def slots_of(evaluated: EvaluatedRows, row: int) -> list[Slot]:
    """The commits in the window of a row, oldest first."""
    windows = evaluated.windows
    first = windows.slots - int(windows.kept[row])
    columns = (column[row, first:].tolist() for column in (windows.timestamp, windows.offset, windows.lag))
    rows = list(zip(*columns, strict=True))
    steps = [None, *(after[1] - before[1] for before, after in pairwise(rows))]
    empty = int(windows.width[row]) - len(rows)
    return [
        Slot(empty + number, at_ms, offset, step, None if lag < 0 else lag)
        for number, ((at_ms, offset, lag), step) in enumerate(zip(rows, steps, strict=False), 1)
    ]


def _ends(evaluated: EvaluatedRows, row: int) -> list[tuple[int, int]]:
    """The log ends over the window: the kept ones, and before them those that lags were computed from."""
    windows = evaluated.windows
    end_row = int(windows.end_row[row])
    if end_row < 0:
        return []
    kept = int(windows.ends_kept[end_row])
    times = list(evaluated.store.end_times)[-kept:] if kept else []
    polled = list(zip(times, windows.ends[end_row, windows.slots - kept :].tolist()[-len(times) :], strict=True))
    began = times[0] if times else np.inf
    older = [(s.at_ms, s.offset + s.lag) for s in slots_of(evaluated, row) if s.lag is not None and s.at_ms < began]
    return sorted(older) + polled
