"""Outcomes rule by rule agree with the vectorised evaluation, in both modes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.verdict.classify import classify_burrow, classify_lagwatch
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.policy import Extension, Policy
from lagwatch.verdict.rule_outcomes import rule_outcomes
from lagwatch.windows import Windows
from tests.harness.burrow_cases import cases
from tests.harness.burrow_windows import policy_of_line, windows_of_lines
from tests.harness.verdict_inputs import lagwatch_policy, no_facts
from tests.unit.test_verdict_properties import NOW, WINDOW

MS = st.sampled_from([0, 0, 30_000, 60_000, 90_000, 400_000, 1_000_000])
FACTS = st.tuples(
    MS, MS, MS, st.sampled_from([0.0, 0.01, 2.0]), st.sampled_from([0, 0, 1, 3]), st.integers(0, 5),
    st.sampled_from([-1, -1, -1, 5000, 900_000]), st.booleans(), st.booleans(), st.sampled_from([False, False, True]),
)  # fmt: skip
RULES = st.tuples(
    st.sampled_from([0, 0, 1, 3]), st.sampled_from([0.0, 0.0, 0.5, 1.0]), st.sampled_from([0, 60_000]),
    st.integers(0, 127),
)  # fmt: skip


def deciding(windows: Windows, facts: Facts, policy: Policy, now_ms: int) -> list[int]:
    found = [rule_outcomes(windows, facts, policy, row, now_ms) for row in range(len(windows))]
    for outcomes in found:
        first = next(outcome for outcome in outcomes if outcome.holds)
        assert [outcome for outcome in outcomes if outcome.decides] == [first]
    return [next(outcome.spec.number for outcome in outcomes if outcome.decides) for outcomes in found]


def test_outcomes_agree_with_burrow_on_every_shared_case() -> None:
    lines = [case["input"] for case in cases("partition")][::5]
    windows = windows_of_lines(lines)
    facts = no_facts(len(windows))
    for row, line in enumerate(lines):
        alone = policy_of_line(line)
        rule = classify_burrow(windows.take(np.array([row])), alone, line["now"]).rule[0]
        shares = np.full(len(windows), alone.minimum_complete[0], np.float32)
        policy = replace(lagwatch_policy(len(windows), int(alone.allowed_lag[0])).as_burrow(), minimum_complete=shares)
        outcomes = rule_outcomes(windows, facts, policy, row, line["now"] * 1000)
        [found] = [outcome.spec.number for outcome in outcomes if outcome.decides]
        assert found == rule, line


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(WINDOW, FACTS, RULES), min_size=1, max_size=8))
def test_outcomes_agree_with_the_vectorised_lagwatch_rules(lines: list[tuple[dict[str, Any], Any, Any]]) -> None:
    windows = windows_of_lines([window for window, _, _ in lines])
    facts = Facts(*(np.array(column) for column in zip(*(facts for _, facts, _ in lines), strict=True)))
    allowed, share, floor, extensions = (
        np.array(column) for column in zip(*(rules for *_, rules in lines), strict=True)
    )
    ours = lagwatch_policy(len(lines), extensions=Extension(0))
    policy = Policy(allowed, share.astype(np.float32), ours.mode, floor, extensions.astype(np.uint8))
    at_once = classify_lagwatch(windows, facts, policy, NOW * 1000)
    assert deciding(windows, facts, policy, NOW * 1000) == at_once.rule.tolist()
