"""The vectorised storage against the plain-Python one, over random histories and batch sizes of commits."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.cli.classify_input import read_history, read_settings
from lagwatch.cli.classify_replay import storage_verdicts
from lagwatch.windows import WindowStore
from tests.harness.burrow_cases import same_answer
from tests.harness.burrow_reference import evaluate_history
from tests.harness.window_batches import commits, described, ends, slots_of

NOW = 1_700_000_000
EXPIRE = 60

# Few values of everything, so that equal orders, equal times and times on the edge of expiry are common; and most of it
# on one partition, so that its window gets full.
PLACE = {"topic": st.sampled_from("aaaaab"), "partition": st.sampled_from([0, 0, 0, 0, 0, 1, 2])}
SECONDS = st.sampled_from([*range(-20, 3), -EXPIRE - 1, -EXPIRE])
TIMESTAMP = st.builds(lambda at, ms: 1000 * (NOW + at) + ms, SECONDS, st.sampled_from([0, 0, 0, 1, 999]))
COMMIT = st.fixed_dictionaries(
    {
        "type": st.just("commit"), **PLACE, "offset": st.integers(0, 20), "order": st.integers(0, 12),
        "timestamp": TIMESTAMP,
    }
)  # fmt: skip
BROKER = st.fixed_dictionaries(
    {"type": st.just("broker"), **PLACE, "partition_count": st.integers(3, 4), "offset": st.integers(0, 20)}
)
OTHERS = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("owner"), **PLACE, "owner": st.sampled_from(["", "/10.0.0.1"]),
            "client_id": st.sampled_from(["", "c1"]),
        }
    ),
    st.just({"type": "clear_owners"}),
    st.just({"type": "delete_group"}),
    st.sampled_from("ab").map(lambda topic: {"type": "delete_group", "topic": topic}),
    st.sampled_from("ab").map(lambda topic: {"type": "delete_topic", "topic": topic}),
)  # fmt: skip
# Most histories begin with ends, else their commits would be dropped, and few lose everything half-way.
EVENTS = st.lists(st.one_of([COMMIT] * 14 + [BROKER] * 2 + [OTHERS]), max_size=30)
FIRST_ENDS = st.sampled_from([0, 2, 2, 2]).map(
    lambda partitions: [
        {"type": "broker", "topic": topic, "partition": at, "partition_count": 3, "offset": 10}
        for topic in "ab"
        for at in range(partitions)
    ]
)
HISTORY = st.fixed_dictionaries(
    {
        "now": st.just(NOW), "intervals": st.integers(1, 4), "min_distance": st.sampled_from([0, 0, 1, 5]),
        "expire_group": st.just(EXPIRE), "allowed_lag": st.integers(0, 2),
        "minimum_complete": st.sampled_from([0.0, 0.5, 1.0]),
        "events": st.builds(lambda first, rest: first + rest, FIRST_ENDS, EVENTS),
    }
)  # fmt: skip


def dense_history(chance: random.Random) -> dict[str, Any]:
    """A longer history than hypothesis likes to make: one partition whose window is full most of the time."""
    base = 1000 * (NOW - 30)
    events: list[dict[str, Any]] = [
        {"type": "broker", "topic": "a", "partition": 0, "partition_count": 1, "offset": 10},
        *(
            {
                "type": "commit", "topic": "a", "partition": 0, "offset": chance.randrange(20),
                "order": max(0, at + chance.choice([-6, -4, -3, -2, -1, 0, 0, 0])),
                "timestamp": base + 1000 * chance.randrange(max(1, at - 3), at + 2) + chance.choice([0, 0, 0, 1]),
            }
            for at in range(0, chance.randrange(10, 40), chance.choice([1, 2]))
        ),
    ]  # fmt: skip
    for _ in range(chance.randrange(4)):
        end = {"type": "broker", "topic": "a", "partition": 0, "partition_count": 1, "offset": chance.randrange(30)}
        events.insert(chance.randrange(1, len(events) + 1), end)
    return {
        "now": NOW, "intervals": chance.randrange(1, 6), "min_distance": chance.choice([0, 0, 1, 2, 3]),
        "expire_group": EXPIRE, "allowed_lag": 0, "minimum_complete": 0.0, "events": events,
    }  # fmt: skip


def test_thousands_of_full_windows_are_kept_as_in_plain_python() -> None:
    chance = random.Random(5)
    histories = [dense_history(chance) for _ in range(3000)]
    found = storage_verdicts([(read_settings(history), read_history(history)) for history in histories])
    different = [
        history
        for history, answer in zip(histories, found, strict=True)
        if not same_answer("storage", answer, evaluate_history(history))
    ]
    assert different == []


@settings(max_examples=400, deadline=None)
@given(st.lists(HISTORY, min_size=1, max_size=4))
def test_histories_side_by_side_end_as_each_does_alone_in_plain_python(histories: list[dict[str, Any]]) -> None:
    found = storage_verdicts([(read_settings(history), read_history(history)) for history in histories])
    for history, answer in zip(histories, found, strict=True):
        assert same_answer("storage", answer, evaluate_history(history))


ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=30)


@settings(max_examples=200, deadline=None)
@given(
    ROWS,
    st.integers(1, 5),
    st.sampled_from([0, 2000]),
    st.lists(st.integers(1, 30), max_size=5).map(sorted),
    st.booleans(),
)
def test_how_commits_are_cut_into_batches_changes_nothing(
    rows: list[tuple[int, int, int]], slots: int, distance_ms: int, cuts: list[int], with_restless_end: bool
) -> None:
    at_once, in_parts = WindowStore(slots), WindowStore(slots)
    for store in (at_once, in_parts):
        store.observe_ends(ends(("t", 0, 15), ("u", 0, 15)))
    at_once.observe_commits(commits(*rows), min_distance_ms=distance_ms)
    for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        if rows[first:last]:
            in_parts.observe_commits(commits(*rows[first:last]), min_distance_ms=distance_ms)
        if with_restless_end:  # of a partition the commits are not about
            in_parts.observe_ends(ends(("u", 0, first)))
    assert described(at_once) == described(in_parts)
    assert at_once.last_commits() == in_parts.last_commits()


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 4), st.booleans()), min_size=1, max_size=40
)  # seconds since the commit before, offset, partition, and whether ends come next


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(2, 6), st.integers(2, 6), st.integers(0, 40), st.sampled_from([0, 2000]))
def test_a_resized_store_is_one_that_always_had_the_new_width_without_what_it_had_dropped(
    steps: list[tuple[int, int, int, bool]], before: int, after: int, resized_at: int, distance_ms: int
) -> None:
    """Commits come in order here: a late one may find its place in a wider window only."""
    resized, always = WindowStore(before), WindowStore(after)
    second = end = 0
    for number, (seconds, offset, partition, has_ends) in enumerate(steps):
        if number == resized_at:
            resized.resize(after)
        second += seconds
        for store in (resized, always):
            if has_ends or number == 0:
                store.observe_ends(ends(*(("t", at, end + 15) for at in range(5)), partitions=5), 1000 * number)
            row = commits((number, offset, second), partition=partition)
            store.observe_commits(row, min_distance_ms=distance_ms)
        end += 3
        if number >= resized_at:
            _same_but_for_what_was_dropped(resized, always, is_narrower=after <= before)
    assert resized.last_commits() == always.last_commits()


def _same_but_for_what_was_dropped(resized: WindowStore, always: WindowStore, *, is_narrower: bool) -> None:
    found, expected = resized.windows(), always.windows()
    for row in range(5):
        kept, full = slots_of(found, row), slots_of(expected, row)
        assert kept == full[len(full) - len(kept) :]
        assert kept == full or not is_narrower
        assert kept or not full, "its newest commit is never dropped"
        end_row, ends_kept = int(found.end_row[row]), int(found.ends_kept[found.end_row[row]])
        assert end_row == expected.end_row[row]
        assert found.ends[end_row, -ends_kept:].tolist() == expected.ends[end_row, -ends_kept:].tolist()
    assert found.current_lag.tolist() == expected.current_lag.tolist()
    assert found.width.tolist() == expected.width.tolist()
    if is_narrower:
        assert described(resized) == described(always)
        assert list(resized.end_times) == list(always.end_times)
