"""The text form of assignments: written and parsed by one codec."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.assignment_text import format_assignment, parse_assignment

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=12)  # all that Kafka allows in a name, in kind
PARTITIONS = st.sets(st.integers(0, 40) | st.integers(0, 2**31 - 1), min_size=1, max_size=30).map(sorted)


@given(st.lists(st.tuples(TOPICS, PARTITIONS), max_size=5))
def test_what_is_formatted_is_parsed_back(assignment: list[tuple[str, list[int]]]) -> None:
    assert list(parse_assignment(format_assignment(assignment))) == assignment


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ([], ""),
        ([("orders", (3,))], "orders:3"),
        ([("orders", (0, 1, 2, 3, 7)), ("payments", (1,))], "orders:0-3,7 payments:1"),
        ([("pay.ments", (1,))], "pay.ments:1"),
        ([("orders", ()), ("payments", (0, 2))], "payments:0,2"),
    ],
)
def test_runs_of_partitions_become_ranges(assignment: list[tuple[str, tuple[int, ...]]], text: str) -> None:
    assert format_assignment(assignment) == text


@pytest.mark.parametrize("text", ["", " ", "orders", "orders:", ":1", "orders:x"])
def test_text_in_another_form_yields_nothing(text: str) -> None:
    assert list(parse_assignment(text)) == []
