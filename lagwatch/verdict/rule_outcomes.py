"""Evaluates every rule for one window, in order, including those after the rule that decides: the basis of `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagwatch.verdict.classify import RuleMatches, burrow_matches, immediate_burrow_matches
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.lagwatch_rules import RuleRows
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.rules import RULES, RuleSpec
from lagwatch.verdict.status import Mode, VerdictRule
from lagwatch.windows.view import Windows


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """Whether a rule holds, and whether it decides: a rule after the deciding one may hold as well."""

    spec: RuleSpec
    holds: bool
    decides: bool


def rule_outcomes(
    windows: Windows, facts: Facts, policy: Policy, row: int, now_ms: int, rules: Sequence[RuleSpec] = RULES
) -> list[RuleOutcome]:
    """Every rule of the mode that evaluates this row; one of them decides."""
    rows = RuleRows(windows, facts, policy, now_ms).take(np.array([row]))
    if policy.mode[row] == Mode.BURROW:
        matches = dict(_burrow_matches(rows))
        found = [(spec, bool(matches[spec.number][0])) for spec in rules if spec.is_burrow]
    else:
        found = [(spec, bool(spec.match(rows)[0])) for spec in rules]
    deciding = next(place for place, (_, holds) in enumerate(found) if holds)
    return [RuleOutcome(spec, holds, place == deciding) for place, (spec, holds) in enumerate(found)]


def _burrow_matches(rows: RuleRows) -> RuleMatches:
    now_ms = rows.now_ms // 1000 * 1000  # Burrow's clock ticks in whole seconds
    return (
        *immediate_burrow_matches(rows.windows, rows.policy),
        *burrow_matches(rows.windows, rows.policy.allowed_lag, np.array([now_ms])),
        (VerdictRule.MOVES, np.ones(1, dtype=bool)),
    )
