"""The table of rules: one entry is enough for a new rule, and an incomplete entry is refused."""

from __future__ import annotations

import runpy
from dataclasses import MISSING, fields, replace
from enum import IntFlag
from typing import cast

import numpy as np
import pytest
from pydantic import ValidationError

from lagwatch.cli.explain_view import _beside
from lagwatch.config import parse_settings, verdicts
from lagwatch.config.verdicts import VerdictSettings
from lagwatch.errors import ConfigError
from lagwatch.evaluation.groups import EvaluatedRows
from lagwatch.snapshot.explain import _ends as ends_of_row
from lagwatch.snapshot.explain import rule_lines
from lagwatch.verdict import classify, rules
from lagwatch.verdict.classify import classify_burrow, classify_lagwatch
from lagwatch.verdict.forecast import Forecast
from lagwatch.verdict.lagwatch_rules import RuleRows
from lagwatch.verdict.policy import ALL_EXTENSIONS, Extension, Policy
from lagwatch.verdict.reference import rule_table
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.rules import (
    BY_NUMBER,
    EXTENSION_NAMES,
    RULES,
    RuleSpec,
    check_table,
    extension_names,
    statuses_by_number,
)
from lagwatch.verdict.status import SEVERITY, WORST_FIRST, Status, VerdictRule
from lagwatch.verdict.why import why_partition
from lagwatch.windows import WindowStore
from tests.harness.burrow_windows import windows_of_lines
from tests.harness.verdict_inputs import lagwatch_policy, no_facts
from tests.unit.test_verdict_rules import NOW, window

LongerExtension = IntFlag("LongerExtension", {**{e.name or "": int(e) for e in Extension}, "TOY": 2 * max(Extension)})  # type: ignore[misc]
TOY = RuleSpec(
    number=len(RULES),
    name="toy lag",
    status=Status.ERR,
    enabled_by=cast("Extension", LongerExtension["TOY"]),
    question="lag of exactly 77?",
    holds=lambda rows: np.asarray(rows.windows.current_lag == 77),
    sentence=lambda inputs: f"its lag is {inputs.window.lag}",
    numbers=lambda inputs: f"lag {inputs.window.lag} of 77",
)
PLANTED = (*RULES[:-1], TOY, RULES[-1])


def evaluated(lag: int, extensions: int = 255) -> EvaluatedRows:
    """One partition that moves and has this lag, by lagwatch's rules."""
    windows, facts = windows_of_lines([window((1, 90), (2, 80), lag=lag)]), no_facts(1)
    policy = replace(lagwatch_policy(1), extensions=np.array([extensions], np.uint8))
    verdicts = classify_lagwatch(windows, facts, policy, NOW * 1000)
    zero = np.zeros(1)
    no = np.zeros(1, dtype=bool)
    return EvaluatedRows(
        WindowStore(2), windows, verdicts, no, facts, policy, Forecast(zero, zero, zero, zero), NOW * 1000
    )


def test_a_planted_rule_has_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    check_table(PLANTED)
    assert statuses_by_number(PLANTED)[TOY.number] == Status.ERR
    monkeypatch.setattr(classify, "_WITH_LAG", tuple(spec for spec in PLANTED[:-1] if not spec.is_immediate))
    monkeypatch.setattr(classify, "STATUS_OF_RULE", statuses_by_number(PLANTED))
    assert evaluated(77).verdicts.rule.tolist() == [TOY.number]
    assert evaluated(77).verdicts.status.tolist() == [Status.ERR]
    assert evaluated(78).verdicts.rule.tolist() == [VerdictRule.MOVES]
    assert evaluated(77, extensions=127).verdicts.rule.tolist() == [VerdictRule.MOVES], "its extension is off"


def test_a_planted_rule_has_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BY_NUMBER, TOY.number, TOY)
    assert why_partition(TOY.number, evaluated(77).rule_inputs(0)) == "its lag is 77"


@pytest.mark.parametrize(
    ("lag", "extensions", "answer", "decides"),
    [(77, 255, "yes", True), (78, 255, "no", False), (77, 127, "off", False)],
)
def test_explain_shows_a_planted_rule(lag: int, extensions: int, answer: str, decides: bool) -> None:
    lines = rule_lines(evaluated(lag, extensions), 0, PLANTED)
    [line] = [line for line in lines if line.spec is TOY]
    assert (line.spec.question, line.numbers) == ("lag of exactly 77?", f"lag {lag} of 77")
    assert (line.answer, line.decides) == (answer, decides)
    assert lines[-1].is_reached == (not decides)


@pytest.mark.parametrize("width", [None, 40, 120])
def test_a_rule_needs_no_numbers(width: int | None) -> None:
    plain = RuleSpec(
        **{name: getattr(TOY, name) for name in ("number", "name", "status", "question", "holds", "sentence")}
    )
    [line] = rule_lines(evaluated(77), 0, (*RULES[:-1], plain, RULES[-1]))[-2:-1]
    assert (line.spec, line.numbers, line.decides) == (plain, "", True)
    assert _beside("=> 16 yes", line.numbers, 12, width) == ["=> 16 yes"]


def test_the_configuration_accepts_a_planted_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extension_names(PLANTED) == (*EXTENSION_NAMES, "toy")
    with pytest.raises(ValidationError):
        VerdictSettings.model_validate({"disable": ["toy"]})
    monkeypatch.setattr(rules, "EXTENSION_NAMES", extension_names(PLANTED))
    planted = runpy.run_path(verdicts.__file__)["VerdictSettings"]
    assert planted.model_validate({"disable": ["toy", "trend"]}).disable == ("toy", "trend")


def test_the_docs_table_has_a_planted_rule() -> None:
    assert f"| {TOY.number} | toy lag | ERR | lag of exactly 77? | lagwatch, `toy` |\n" in rule_table(PLANTED)


def test_the_docs_table_names_every_extension_that_refines_a_rule() -> None:
    assert BY_NUMBER[VerdictRule.HAD_NO_LAG].refined_by == (Extension.MARKERS, Extension.PATIENCE)
    assert "| no lag at one of its commits? | both; `markers` and `patience` refine it |\n" in rule_table()
    assert "| at one offset for too long? | both; `patience` refines it |\n" in rule_table()


def test_every_extension_can_be_disabled_and_no_other() -> None:
    assert tuple(str(one.name).lower() for one in Extension) == EXTENSION_NAMES
    assert sum(Extension) == ALL_EXTENSIONS
    text = "clusters: [{{name: east, bootstrap: k:9092, verdicts: {{disable: [{}]}}}}]"
    [cluster] = parse_settings(text.format(", ".join(EXTENSION_NAMES)), "f").clusters
    assert cluster.verdicts.disable == EXTENSION_NAMES
    with pytest.raises(ConfigError) as raised:
        parse_settings(text.format("speed"), "f")
    [problem] = raised.value.problems
    listed = f"{', '.join(EXTENSION_NAMES[:-1])} or {EXTENSION_NAMES[-1]}"
    assert problem.endswith(f'verdicts.disable[0]: "speed" is not one of {listed}')


def test_a_rule_needs_everything() -> None:
    given = {field.name: getattr(TOY, field.name) for field in fields(TOY)}
    required = [field.name for field in fields(RuleSpec) if field.default is MISSING]
    assert {"number", "name", "sentence", "question", "holds", "status"} == set(required)
    for name in required:
        with pytest.raises(TypeError, match=name):
            RuleSpec(**{other: value for other, value in given.items() if other != name})
    for name in ("name", "question"):
        with pytest.raises(ValueError, match="needs a name and a question"):
            RuleSpec(**given | {name: ""})


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ((*RULES[:-1], replace(TOY, number=3), RULES[-1]), "each once"),
        ((*RULES[:-1], replace(TOY, number=len(RULES) + 1), RULES[-1]), "0, 1, 2"),
        ((*RULES, TOY), "last rule"),
        ((*RULES[:-1], replace(TOY, is_immediate=True), RULES[-1]), "immediate rules must come before"),
        ((replace(RULES[0], name="orphaned"), *RULES[1:]), "is orphaned in the table and ABANDONED in VerdictRule"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(table: tuple[RuleSpec, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_table(table)


def test_every_rule_has_a_predicate_and_a_sentence_for_its_row() -> None:
    rows = evaluated(50)
    for spec in RULES:
        assert spec.match(RuleRows(rows.windows, rows.facts, rows.policy, rows.now_ms)).tolist() in ([True], [False])
        assert spec.sentence(rows.rule_inputs(0))
    assert [spec.number for spec in RULES if not spec.is_off(rows.rule_inputs(0))] != []


def test_burrows_rules_keep_their_order() -> None:
    burrows = [spec.number for spec in RULES if spec.is_burrow]
    assert burrows == [0, 8, 1, 2, 3, 4, 5, 6, 7]
    windows = windows_of_lines([window((1, 90), (2, 80))])
    policy = Policy.of_burrow(1)
    assert classify_burrow(windows, policy, NOW).rule.tolist() == [VerdictRule.MOVES]
    inputs = RuleInputs.of_burrow(windows, policy, 0, NOW * 1000)
    assert [spec.number for spec in RULES if not spec.is_off(inputs)] == burrows


def test_the_rules_after_markers_are_those_for_real_lag() -> None:
    in_order = [spec.number for spec in RULES]
    before = in_order[: in_order.index(VerdictRule.ONLY_MARKERS)]
    assert set(before) == {
        VerdictRule.ABANDONED, VerdictRule.LOST, VerdictRule.LOST_AND_GONE, VerdictRule.NOTHING_COMMITTED,
        VerdictRule.INCOMPLETE, VerdictRule.CAUGHT_UP,
    }, "each of these decides without a look at what is unread"  # fmt: skip


def test_severity_is_one_order() -> None:
    assert sorted(WORST_FIRST, key=lambda status: -SEVERITY[status]) == list(WORST_FIRST)
    assert set(SEVERITY) == set(Status)


def test_an_extension_that_concerns_no_rule_is_refused() -> None:
    without = [
        replace(spec, enabled_by=None if spec.enabled_by is Extension.LOSS else spec.enabled_by) for spec in RULES
    ]
    with pytest.raises(ValueError, match="extensions that concern no rule: LOSS"):
        check_table(without)


def test_a_row_without_log_ends_is_explained_without_them() -> None:
    rows = evaluated(50)
    without = replace(rows, windows=replace(rows.windows, end_row=np.array([-1], np.int32)))
    assert len(ends_of_row(rows, 0)) == 2
    assert ends_of_row(without, 0) == []
