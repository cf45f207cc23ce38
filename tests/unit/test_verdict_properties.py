"""The vectorised rules against the plain-Python ones: all of Burrow's own results, and random windows."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.cli.classify_input import read_group, read_history, read_settings, read_window
from lagwatch.cli.classify_replay import storage_verdicts
from lagwatch.cli.classify_results import group_verdicts, partition_verdicts
from tests.harness.burrow_cases import cases, same_answer
from tests.harness.burrow_reference import evaluate_group, evaluate_history, evaluate_partition

NOW = 1_700_000_000

SLOT = st.fixed_dictionaries(
    {
        "offset": st.integers(0, 5), "order": st.just(0), "lag": st.one_of(st.none(), st.integers(0, 5)),
        "timestamp": st.builds(lambda at, ms: 1000 * (NOW + at) + ms, st.integers(-6, 2), st.sampled_from([0, 0, 1])),
    }
)  # fmt: skip
WINDOW = st.fixed_dictionaries(
    {
        "offsets": st.builds(
            lambda empty, filled: [None] * empty + filled, st.integers(0, 3), st.lists(SLOT, max_size=7)
        ),
        "broker_offsets": st.lists(st.integers(0, 8), max_size=4),
        "current_lag": st.integers(0, 5),
    }
)
SETTINGS = {
    "now": st.just(NOW),
    "allowed_lag": st.sampled_from([0, 0, 1, 3]),
    "minimum_complete": st.sampled_from([0.0, 0.0, 0.1, 0.3, 1 / 3, 0.5, 0.7, 0.8, 0.9, 1.0]),
}


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(WINDOW, st.fixed_dictionaries(SETTINGS)), min_size=1, max_size=12))
def test_windows_evaluated_together_agree_with_each_alone_in_plain_python(
    lines: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    found = partition_verdicts([(read_settings(settings), read_window(window)) for window, settings in lines])
    for (window, settings_), answer in zip(lines, found, strict=True):
        assert same_answer("partition", answer, evaluate_partition(window, settings_))
        assert answer["why"].startswith(f"{answer['status']}: ")


TOPICS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(WINDOW, max_size=4))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(TOPICS, st.fixed_dictionaries(SETTINGS), st.booleans()), min_size=1, max_size=4))
def test_groups_roll_up_as_in_plain_python(
    lines: list[tuple[dict[str, Any], dict[str, Any], bool]],
) -> None:
    found = group_verdicts(
        [(read_settings(given), read_group({"topics": topics, "not_found": lost})) for topics, given, lost in lines]
    )
    for (topics, given_, lost), answer in zip(lines, found, strict=True):
        expected = evaluate_group(None if lost else topics, given_)
        assert same_answer("group", answer, expected)
        assert _name(answer["maxlag"]) == _name(expected["maxlag"]), "the first wins a tie"


def test_all_partitions_get_burrows_own_answers() -> None:
    shared = cases("partition")
    found = partition_verdicts([(read_settings(case["input"]), read_window(case["input"])) for case in shared])
    assert _different("partition", shared, found) == []
    assert _different("partition", shared, [evaluate_partition(case["input"], case["input"]) for case in shared]) == []
    assert len(shared) == 2500


def test_all_groups_get_burrows_own_answers() -> None:
    shared = cases("group")
    found = group_verdicts([(read_settings(case["input"]), read_group(case["input"])) for case in shared])
    assert _different("group", shared, found) == []
    assert (
        _different("group", shared, [evaluate_group(case["input"]["topics"], case["input"]) for case in shared]) == []
    )
    assert len(shared) == 300


def test_all_histories_get_burrows_own_answers() -> None:
    shared = cases("storage")
    found = storage_verdicts([(read_settings(case["input"]), read_history(case["input"])) for case in shared])
    assert _different("storage", shared, found) == []
    assert _different("storage", shared, [evaluate_history(case["input"]) for case in shared]) == []
    assert len(shared) == 500


def _different(kind: str, shared: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[str]:
    return [
        case["id"] for case, answer in zip(shared, found, strict=True) if not same_answer(kind, answer, case["expect"])
    ]


def _name(partition: dict[str, Any] | None) -> tuple[str, int] | None:
    return None if partition is None else (partition["topic"], partition["partition"])
