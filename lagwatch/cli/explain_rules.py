"""How each rule of the table evaluates for one partition, with the numbers it compares. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagwatch.evaluation import EvaluatedRows
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
