"""Burrow's rules one by one, and the consequences of their order; each row has its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lagwatch.verdict import burrow_rules as rules
from lagwatch.verdict.classify import NO_SLOT, classify_burrow
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Status
from tests.harness.burrow_windows import evaluate_line, windows_of_lines

NOW = 1_700_000_000
Commit = tuple[int, int | None] | None  # offset and lag; one commit every 10 s


def window(
    *commits: Commit, ends: tuple[int, ...] = (1000,), lag: int = 50, silent_s: float = 1, **more: Any
) -> dict[str, Any]:
    """A line for `lagwatch classify`: commits 10 s apart, the newest `silent_s` ago."""
    count = len(commits)
    slots = [
        commit
        and {
            "offset": commit[0],
            "order": at,
            "timestamp": 1000 * NOW - round(1000 * silent_s) - 10_000 * (count - 1 - at),
            "lag": commit[1],
        }
        for at, commit in enumerate(commits)
    ]
    return {"now": NOW, "offsets": slots, "broker_offsets": list(ends), "current_lag": lag, **more}


ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("no lag now excuses a rewind", "OK", window((9, 9), (3, 9), lag=0)),
    ("and silence", "OK", window((1, 9), (3, 9), lag=0, silent_s=100)),
    ("lag equal to what is allowed is no lag", "OK", window((1, 9), (1, 9), lag=5, allowed_lag=5)),
    ("one more is", "STALL", window((1, 9), (1, 9), lag=6, allowed_lag=5)),
    ("silence as long as the span is not silence", "STALL", window((1, 9), (1, 9), silent_s=10)),
    ("a ms more is", "STOP", window((1, 9), (1, 9), silent_s=10.001)),
    ("silence beats a rewind", "STOP", window((9, 9), (3, 9), silent_s=60)),
    ("and a zero lag in the window", "STOP", window((1, 0), (3, 9), silent_s=60)),
    ("one commit is silent at once", "STOP", window((1, 9), silent_s=1)),
    ("one commit of this very ms is not; it stalls", "STALL", window((1, 9), silent_s=0)),
    ("a commit ahead of the clock is not silent", "WARN", window((1, 5), (2, 9), silent_s=-5)),
    ("a kept end at the commit excuses silence", "WARN", window((1, 5), (2, 9), ends=(2, 90), silent_s=60)),
    ("but not what comes after it", "REWIND", window((9, 5), (2, 9), ends=(2, 90), silent_s=60)),
    ("no kept end excuses nothing", "STOP", window((1, 5), (2, 9), ends=(), silent_s=60)),
    ("a rewind is seen before the zero lag it hides behind", "REWIND", window((9, 0), (2, 9))),
    ("a rewind made good is none", "OK", window((9, 5), (2, 9), (9, 4))),
    ("only the first counts, whatever comes after", "OK", window((9, 5), (2, 9), (10, 4), (0, 14))),
    ("one half made good still is", "REWIND", window((9, 5), (2, 9), (8, 4))),
    ("any zero lag excuses a stall", "OK", window((1, 9), (1, 0), (1, 9))),
    ("a lag not known is not zero", "STALL", window((1, None), (1, None))),
    ("equal lags do not fall", "WARN", window((1, 9), (2, 9))),
    ("one dip hides a warning", "OK", window((1, 9), (2, 8), (3, 20))),
    ("a dip is seen over an unknown lag", "OK", window((1, 9), (2, None), (3, 8))),
    ("with no lag known it never fell", "WARN", window((1, None), (2, None))),
    ("empty slots in front are not looked at", "STALL", window(None, None, (4, 9), (4, 9))),
    ("too few commits are not evaluated", "OK", window(None, None, None, (4, 9), minimum_complete=0.26)),
    ("just enough are", "STOP", window(None, None, None, (4, 9), minimum_complete=0.25)),
    ("7 of 10 is 0.7 in 32 bits, not less", "STALL", window(*[None] * 3, *[(4, 9)] * 7, minimum_complete=0.7)),
]  # fmt: skip


@pytest.mark.parametrize(("status", "line"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_first_rule_that_holds_decides(status: str, line: dict[str, Any]) -> None:
    evaluated = evaluate_line(line)
    assert evaluated.status == status
    assert not evaluated.why.startswith(status), "the status has a column of its own"


def test_a_newest_commit_older_than_the_oldest_is_silent_even_when_fresh() -> None:
    line = window((1, 5), (2, 9), silent_s=0)
    line["offsets"][0]["timestamp"] += 20_000
    assert evaluate_line(line).status == "STOP"
    assert "has an older time" in evaluate_line(line).why


@pytest.mark.parametrize(("slots", "complete"), [(0, 0), (1, 1), (10, 0.1), (3, 0.33333334)])
def test_empty_windows_are_ok_and_count_one_slot_as_filled(slots: int, complete: float) -> None:
    evaluated = evaluate_line(window(*[None] * slots))
    assert evaluated.status == "OK"
    assert evaluated.verdicts.complete.tolist() == np.array([complete], np.float32).tolist()
    assert (evaluated.verdicts.start.tolist(), evaluated.verdicts.end.tolist()) == ([NO_SLOT], [NO_SLOT])


def test_each_rule_answers_for_every_row_by_itself() -> None:
    lines = [
        window((1, 5), (2, 9)),
        window((9, 5), (2, 9)),
        window((3, 0), (3, 4), silent_s=60),
        window(None, (7, None)),
    ]
    windows = windows_of_lines(lines)
    none = np.zeros(4, np.int64)
    assert rules.is_silent(windows, np.full(4, 1000 * NOW)).tolist() == [False, False, True, True]
    assert rules.had_caught_up(windows).tolist() == [False] * 4
    assert rules.has_rewound(windows).tolist() == [False, True, False, False]
    assert rules.had_no_lag(windows, none).tolist() == [False, False, True, False]
    assert rules.has_stalled(windows).tolist() == [False, False, True, True]
    assert rules.only_grows(windows).tolist() == [True] * 4


def test_an_unknown_mode_is_refused() -> None:
    windows = windows_of_lines([window((1, 5))])
    policy = Policy.of_burrow(1)
    with pytest.raises(ValueError, match="not under Burrow's rules"):
        classify_burrow(windows, Policy(policy.allowed_lag, policy.minimum_complete, policy.mode + 7), NOW)


def test_a_minimum_in_64_bits_means_the_same() -> None:
    windows = windows_of_lines([window(*[None] * 3, *[(4, 9)] * 7)])
    wide = Policy(np.zeros(1, np.int64), np.array([0.7]), np.zeros(1, np.uint8))
    assert classify_burrow(windows, wide, NOW).status.tolist() == [Status.STALL]


def test_no_windows_are_no_verdicts() -> None:
    assert classify_burrow(windows_of_lines([]), Policy.of_burrow(0), NOW).status.tolist() == []


def test_the_statuses_have_burrows_numbers() -> None:
    names = ["NOTFOUND", "OK", "WARN", "ERR", "STOP", "STALL", "REWIND"]
    assert [(status.name, status.value) for status in Status] == [(name, at) for at, name in enumerate(names)]
