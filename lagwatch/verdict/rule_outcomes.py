"""How every rule comes out for one window, in the order in which they are tried: the first that holds decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lagwatch.verdict import burrow_rules, lagwatch_rules
from lagwatch.verdict.burrow_rules import RuleMatches, completeness
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Mode, VerdictRule
from lagwatch.windows.view import Windows


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """Whether one rule holds, and whether it decides: a rule after the one that decides may well hold too."""

    rule: VerdictRule
    holds: bool
    decides: bool


def rule_outcomes(windows: Windows, facts: Facts, policy: Policy, row: int, now_ms: int) -> list[RuleOutcome]:
    """Every rule of the mode this row is judged by; one of them decides."""
    one = np.array([row])
    windows, facts, policy = windows.take(one), facts.take(one), policy.take(one)
    if policy.mode[0] == Mode.BURROW:
        # Burrow's clock ticks in whole seconds.
        holding = _of_burrow(windows, policy, now_ms // 1000 * 1000)
    else:
        at_once = lagwatch_rules.immediate_rules(windows, facts, policy)
        holding = (*at_once, *lagwatch_rules.rules_with_lag(windows, facts, policy, now_ms))
    found = [(rule, bool(holds[0])) for rule, holds in holding] + [(VerdictRule.MOVES, True)]
    deciding = next(place for place, (_, holds) in enumerate(found) if holds)
    return [RuleOutcome(rule, holds, place == deciding) for place, (rule, holds) in enumerate(found)]


def _of_burrow(windows: Windows, policy: Policy, now_ms: int) -> RuleMatches:
    return (
        (VerdictRule.NOTHING_COMMITTED, windows.kept == 0),
        (VerdictRule.INCOMPLETE, completeness(windows) < policy.minimum_complete),
        (VerdictRule.CAUGHT_UP, windows.current_lag <= policy.allowed_lag),
        *burrow_rules.rules_with_lag(windows, policy.allowed_lag, np.array([now_ms])),
    )
