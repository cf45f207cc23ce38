"""The `why` sentence contains the numbers that decided the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from lagwatch.cli.classify_input import GroupHistory, read_group, read_settings
from lagwatch.cli.classify_results import group_verdicts
from lagwatch.verdict.rule_inputs import RuleInputs, WindowSummary
from lagwatch.verdict.rules import BY_NUMBER
from lagwatch.verdict.status import VerdictRule
from lagwatch.verdict.why import with_status
from tests.harness.burrow_windows import evaluate_line
from tests.unit.test_verdict_rules import Commit, window

TEN: tuple[Commit, ...] = tuple((900 + at, 5) for at in range(10))

SENTENCES: list[tuple[dict[str, Any], str]] = [
    (
        window(*TEN, ends=(1000, 1100, 1200), lag=291, silent_s=95),
        "STOP: silent 95 s, longer than the 90 s its last 10 commits span, while the log end moved from 1000 to 1200",
    ),
    (
        window((7, 5), (9, 5), ends=(20, 20), silent_s=10.001),
        "STOP: silent 10.001 s, longer than the 10 s its last 2 commits span, while the log end is 20, past its offset 9",
    ),
    (window((9, 5), ends=(), lag=1), "STOP: silent 1 s since its only commit, while 1 message is unread"),
    (
        window((9, 5), (2, 5), (4, 5), lag=70),
        "REWIND: went back from offset 9 to 2 and has not reached 9 since; 70 messages are unread",
    ),
    (
        window((9, 3), (9, 5), (9, 5)),
        "STALL: its last 3 commits over 20 s are all at offset 9 while 50 messages are unread",
    ),
    (window((9, 3), silent_s=0), "STALL: its only commit is at offset 9 while 50 messages are unread"),
    (
        window((1, 3), (2, None), (3, 8)),
        "WARN: moves, but its lag only grew, from 3 to 8, over its last 3 commits; 50 messages are unread",
    ),
    (window((1, 3), (2, 3)), "WARN: moves, but its lag stayed at 3 over its last 2 commits; 50 messages are unread"),
    (
        window((1, None), (2, 3)),
        "WARN: moves, but the lag of only one of its last 2 commits is known, so it never fell; 50 messages are unread",
    ),
    (
        window((1, 9), (2, 3)),
        "OK: moves, and its lag fell from 9 to 3 within its last 2 commits; 50 messages are unread",
    ),
    (window((1, 0), (2, 3)), "OK: had a lag of 0 at one of its last 2 commits; 50 messages are unread now"),
    (
        window((1, 7), (2, 30), allowed_lag=9),
        "OK: had a lag of 7, within the allowed 9, at one of its last 2 commits; 50 messages are unread now",
    ),
    (window((1, 0), lag=0), "OK: nothing is unread"),
    (window((1, 0), lag=4, allowed_lag=9), "OK: a lag of 4 is within the allowed 9"),
    (
        window(None, (1, 4), minimum_complete=0.7),
        "OK: not evaluated: 1 of 2 slots are filled, less than the minimum of 0.7",
    ),
    (window(None, None), "OK: nothing has been committed yet"),
    (window(), "OK: nothing has been committed yet"),
]


@pytest.mark.parametrize(("line", "sentence"), SENTENCES, ids=[sentence for _, sentence in SENTENCES])
def test_the_sentence_of_a_partition(line: dict[str, Any], sentence: str) -> None:
    evaluated = evaluate_line(line)
    assert with_status(evaluated.status, evaluated.why) == sentence


def group_why(**topics: list[dict[str, Any]]) -> str:
    line = {**window(), "topics": topics}
    [answer] = group_verdicts([(read_settings(line), read_group(line))])
    return str(answer["why"])


def test_the_sentence_of_a_group_names_its_worst_partition() -> None:
    fine, warns, stalls = window((1, 0), lag=0), window((1, 3), (2, 4)), window((1, 3), (1, 4))
    assert group_why(t=[fine, stalls, warns]) == (
        "ERR: t/1 is STALL: its last 2 commits over 10 s are all at offset 1 while 50 messages are unread "
        "(2 of 3 partitions are not OK)"
    )
    assert group_why(t=[fine], u=[{**stalls, "current_lag": 3}, stalls]).startswith("ERR: u/1 is STALL")
    assert group_why(t=[warns]).startswith("WARN: t/0 is WARN: moves, but")
    assert group_why(t=[fine, fine]) == "OK: all its 2 partitions are OK"
    assert group_why(t=[fine]) == "OK: its only partition is OK"
    assert group_why() == "OK: it has no partitions: its topics are gone"


def test_a_group_that_does_not_exist() -> None:
    [answer] = group_verdicts([(read_settings(window()), GroupHistory(None))])
    assert (answer["why"], answer["complete"]) == ("NOTFOUND: the group does not exist", 1)


def inputs(**more: Any) -> RuleInputs:
    """A row by lagwatch's rules: two commits, 50 messages unread."""
    window = WindowSummary(10, [100, 110], [0, 10_000], [3, 5], [3, 5], [150, 160], 50)
    return RuleInputs(**{"window": window, "now_ms": 20_000, "is_burrow": False, "allowed": 0, "minimum": 0.0, **more})


OWN_SENTENCES: list[tuple[VerdictRule, RuleInputs, str]] = [
    (
        VerdictRule.ABANDONED,
        inputs(abandoned=True),
        "not evaluated: the group is active, but none of its members is assigned this topic",
    ),
    (
        VerdictRule.LOST,
        inputs(log_start=140, lost=30.0),
        "30 messages were deleted unread: its offset 110 is below the log start 140",
    ),
    (
        VerdictRule.LOST_AND_GONE,
        inputs(log_start=140, lost=30.0, still=400.0),
        "30 messages were deleted unread: its offset 110 is below the log start 140, and it has not moved for 6m40s",
    ),
    (VerdictRule.HAD_NO_LAG, inputs(), "had a lag of 3 at one of its last 2 commits; 50 messages are unread now"),
    (
        VerdictRule.MOVES,
        inputs(still=4.0, gap=7.0),
        "last moved 4s ago, and its longest gap between moves was 7s; 50 messages are unread",
    ),
    (
        VerdictRule.MOVES,
        inputs(still=4.0),
        "last moved 4s ago, and fewer than two moves were observed; 50 messages are unread",
    ),
]


@pytest.mark.parametrize(("rule", "given", "sentence"), OWN_SENTENCES, ids=[text for _, _, text in OWN_SENTENCES])
def test_the_sentence_of_a_rule_of_lagwatch(rule: VerdictRule, given: RuleInputs, sentence: str) -> None:
    assert BY_NUMBER[rule].sentence(given) == sentence


NO_LAGS = WindowSummary(10, [100], [0], [], [], [], 50)
NUMBERS: list[tuple[VerdictRule, RuleInputs, str]] = [
    (VerdictRule.ABANDONED, inputs(abandoned=True), "members are assigned other topics, not this one"),
    (VerdictRule.ABANDONED, inputs(has_members=True), "members are assigned this topic, or assignments are unknown"),
    (VerdictRule.ABANDONED, inputs(), "the group has no members"),
    (
        VerdictRule.LOST,
        inputs(log_start=140, lost=30.0),
        "its offset is 110, the log starts at 140, below it for 30s; it has no members",
    ),
    (
        VerdictRule.LOST,
        inputs(log_start=140, lost=30.0, has_members=True),
        "its offset is 110, the log starts at 140, below it for 30s; it has members",
    ),
    (VerdictRule.LOST, inputs(), "its offset is 110, the log start is unknown"),
    (VerdictRule.HAD_NO_LAG, inputs(window=NO_LAGS), "the lag at its commits is unknown"),
]


@pytest.mark.parametrize(("rule", "given", "numbers"), NUMBERS, ids=[text for _, _, text in NUMBERS])
def test_the_numbers_that_explain_shows(rule: VerdictRule, given: RuleInputs, numbers: str) -> None:
    assert BY_NUMBER[rule].numbers(given) == numbers
