"""The windows keep what Burrow's storage keeps: each of its rules in a few commits."""

from __future__ import annotations

import numpy as np
import pytest

from lagwatch.windows import UNKNOWN_LAG, Windows, WindowStore
from lagwatch.windows.serialize import WINDOWS, load, save
from tests.harness.window_batches import T0, assigned, commits, described, ends, slots_of

Row = tuple[int, int, float]
Kept = tuple[int, int, float, int | None]


def store_of(slots: int, *rows: Row, min_distance_s: int = 0, end: int = 100) -> WindowStore:
    """A store that saw one end, then commits (order, offset, seconds) of one partition."""
    store = WindowStore(slots)
    store.observe_ends(ends(("t", 0, end)))
    store.observe_commits(commits(*rows), min_distance_ms=1000 * min_distance_s)
    return store


PLACES: list[tuple[str, int, int, list[Row], list[Kept]]] = [
    ("the newest are appended", 3, 0, [(1, 10, 0), (2, 20, 5)], [(1, 10, 0, 90), (2, 20, 5, 80)]),
    ("the oldest falls out when full", 2, 0, [(1, 10, 0), (2, 20, 5), (3, 30, 9)], [(2, 20, 5, 80), (3, 30, 9, 70)]),
    ("a commit beyond the known end has no lag", 2, 0, [(1, 130, 0)], [(1, 130, 0, 0)]),
    ("an older one goes in front while there is room", 3, 0, [(5, 50, 5), (2, 20, 2)], [(2, 20, 2, None), (5, 50, 5, 50)]),
    (
        "an older one goes between its neighbours",
        4, 0, [(1, 10, 1), (5, 50, 5), (3, 30, 3)], [(1, 10, 1, 90), (3, 30, 3, None), (5, 50, 5, 50)],
    ),
    (
        "and pushes the oldest out of a full window",
        3, 0, [(1, 10, 1), (2, 20, 2), (5, 50, 5), (4, 40, 4)], [(2, 20, 2, 80), (4, 40, 4, None), (5, 50, 5, 50)],
    ),
    (
        "but just newer than the oldest of a full window it replaces it",
        3, 0, [(1, 10, 1), (4, 40, 4), (5, 50, 5), (3, 30, 3)], [(3, 30, 3, None), (4, 40, 4, 60), (5, 50, 5, 50)],
    ),
    (
        "and a replacement is never merged, however close",
        2, 30, [(1, 10, 1), (5, 50, 50), (3, 30, 2)], [(3, 30, 2, None), (5, 50, 50, 50)],
    ),
    (
        "older than the oldest of a full window is dropped",
        2, 0, [(3, 30, 3), (5, 50, 5), (2, 20, 2)], [(3, 30, 3, 70), (5, 50, 5, 50)],
    ),
    ("an order already kept is dropped", 3, 0, [(3, 30, 3), (5, 50, 5), (3, 99, 9)], [(3, 30, 3, 70), (5, 50, 5, 50)]),
    ("the newest order again is dropped too", 3, 0, [(3, 30, 3), (3, 40, 4)], [(3, 30, 3, 70)]),
    (
        "close commits share a slot, which keeps the old time",
        3, 5, [(1, 10, 0), (2, 20, 4.999), (3, 30, 5)], [(2, 20, 0, 80), (3, 30, 5, 70)],
    ),
    ("exactly the minimum apart they do not", 3, 5, [(1, 10, 0), (2, 20, 5)], [(1, 10, 0, 90), (2, 20, 5, 80)]),
    (
        "with no minimum the same ms opens a slot",
        3, 0, [(1, 10, 1), (2, 20, 1)], [(1, 10, 1, 90), (2, 20, 1, 80)],
    ),
    ("a time that goes back merges even so", 3, 0, [(1, 10, 9), (2, 20, 8.999)], [(2, 20, 9, 80)]),
    (
        "a backfill exactly the minimum after its neighbour gets a slot",
        4, 5, [(1, 10, 0), (9, 90, 60), (4, 40, 5)], [(1, 10, 0, 90), (4, 40, 5, None), (9, 90, 60, 10)],
    ),
    (
        "a merged backfill makes the lag of that slot unknown",
        4, 5, [(1, 10, 0), (9, 90, 60), (4, 40, 3)], [(4, 40, 0, None), (9, 90, 60, 10)],
    ),
    ("a window of one slot keeps the newest", 1, 0, [(1, 10, 0), (2, 20, 5), (1, 5, 9)], [(2, 20, 5, 80)]),
    ("and merges into itself", 1, 5, [(1, 10, 0), (2, 20, 3)], [(2, 20, 0, 80)]),
]  # fmt: skip


@pytest.mark.parametrize(("slots", "distance", "rows", "kept"), [row[1:] for row in PLACES], ids=[r[0] for r in PLACES])
def test_a_commit_goes_where_its_order_says(slots: int, distance: int, rows: list[Row], kept: list[Kept]) -> None:
    at_once = store_of(slots, *rows, min_distance_s=distance)
    one_by_one = store_of(slots, rows[0], min_distance_s=distance)
    for row in rows[1:]:
        one_by_one.observe_commits(commits(row), min_distance_ms=1000 * distance)
    assert slots_of(at_once.windows()) == kept
    assert described(one_by_one) == described(at_once)


def test_a_commit_exactly_as_old_as_allowed_is_kept_and_an_older_one_is_not() -> None:
    store = store_of(3, (1, 10, 0))
    store.observe_commits(commits((2, 20, 59.999), (3, 30, 60)), oldest_ms=T0 + 60_000)
    assert [order for order, *_ in slots_of(store.windows())] == [1, 3]


def test_a_partition_without_a_known_end_takes_no_commits_and_makes_no_group() -> None:
    store = WindowStore(3)
    store.observe_commits(commits((1, 10, 0)))
    store.observe_ends(ends(("t", 1, 5), partitions=2))
    store.observe_commits(commits((2, 10, 0), group="h"))
    assert (described(store), store.last_commits()) == ({}, {})


def test_the_first_commit_of_a_topic_makes_a_row_for_each_partition_it_has_by_then() -> None:
    store = WindowStore(2)
    store.observe_ends(ends(("t", 1, 5), partitions=3))
    store.observe_commits(commits((1, 5, 0), partition=1))
    assert {key[2]: width for key, (width, *_) in described(store).items()} == {0: 0, 1: 2, 2: 0}
    store.observe_ends(ends(("t", 4, 5), ("t", 3, 5), partitions=5))
    assert len(described(store)) == 3
    store.observe_commits(commits((2, 5, 0), partition=3))
    assert {key[2]: width for key, (width, *_) in described(store).items()} == {0: 0, 1: 2, 2: 0, 3: 2, 4: 0}


def test_an_owner_makes_the_row_known_with_empty_slots() -> None:
    store = WindowStore(2)
    store.observe_ends(ends(("t", 0, 5), partitions=2))
    taken = [store.observe_assigned(assigned("g", "t", at)).tolist() for at in (0, 1)] + [
        store.observe_assigned(assigned("g", "other", 0)).tolist()
    ]
    assert taken == [[True], [False], [False]]
    assert described(store) == {("g", "t", 0): (2, [], [5], 0), ("g", "t", 1): (0, [], [], 0)}
    assert store.last_commits() == {"g": 0}


def test_ends_are_kept_to_the_same_depth_and_lag_is_against_the_newest() -> None:
    store = store_of(2, (1, 10, 0), end=11)
    store.observe_ends(ends(("t", 0, 12), ("t", 0, 40), ("t", 0, 30)))
    assert described(store)["g", "t", 0] == (2, [(1, 10, 0, 1)], [40, 30], 20)
    store.observe_ends(ends(("t", 0, 3)))
    assert described(store)["g", "t", 0][3] == 0, "an end below the commit is no lag"


def test_the_last_commit_of_a_group_is_the_last_appended_one_not_the_latest() -> None:
    store = store_of(3, (1, 10, 50), (5, 20, 20), (3, 15, 90), min_distance_s=5)
    assert store.last_commits() == {"g": T0 + 20_000}


def test_a_topic_that_goes_leaves_its_groups_and_nothing_else() -> None:
    store = store_of(3, (1, 10, 0))
    store.drop_topics(["t", "never heard of"])
    assert (described(store), store.last_commits()) == ({}, {"g": T0})
    store.observe_commits(commits((2, 10, 0)))
    assert described(store) == {}, "its ends went too"
    store.observe_ends(ends(("t", 0, 7)))
    store.observe_commits(commits((1, 5, 0)))
    assert described(store) == {("g", "t", 0): (3, [(1, 5, 0, 2)], [7], 2)}


def test_a_group_taken_off_its_last_topic_goes_with_it() -> None:
    store = store_of(3, (1, 10, 0))
    store.observe_ends(ends(("u", 0, 7)))
    store.observe_commits(commits((1, 5, 0), topic="u"))
    store.drop_topic_of_groups([("g", "t"), ("nobody", "t")])
    assert [key[1] for key in described(store)] == ["u"]
    store.drop_topic_of_groups([("g", "u")])
    assert store.last_commits() == {}


def test_dropping_rows_leaves_the_others_as_they_were() -> None:
    store = WindowStore(3)
    store.observe_ends(ends(*((topic, at, 50) for topic in "abc" for at in range(4)), partitions=4))
    for number in range(20):
        for topic in "abc":
            store.observe_commits(commits((1, number, number), group=f"g{number}", topic=topic, partition=number % 4))
    before = described(store)
    store.drop_groups(f"g{number}" for number in range(0, 20, 3))
    store.drop_topics(["b"])
    left = {key: kept for key, kept in before.items() if int(key[0][1:]) % 3 and key[1] != "b"}
    assert described(store) == left


def test_nothing_grows_without_bound() -> None:
    store = WindowStore(10)
    store.observe_ends(ends(*(("t", at, 5) for at in range(50)), partitions=50))
    store.observe_commits(commits((1, 5, 0), group="stays"))
    size = store.nbytes
    for number in range(200):
        store.observe_ends(ends((f"topic{number}", 0, 5)))
        store.observe_commits(commits((1, 5, 0), group=f"group{number}"))
        store.observe_commits(commits((1, 5, 0), group="stays", topic=f"topic{number}"))
        store.drop_groups([f"group{number}"])
        store.drop_topics([f"topic{number}"])
    assert store.nbytes < 3 * size
    assert max(store.groups.all()) < 10
    assert max(store.topics.all()) < 10


@pytest.mark.parametrize("groups", [1, 5], ids=["one group a partition", "five groups a partition"])
def test_a_row_costs_at_most_450_bytes(groups: int) -> None:
    store = WindowStore(10)
    partitions = 20_000
    store.observe_ends(ends(*(("t", at, 5) for at in range(partitions)), partitions=partitions))
    for number in range(groups):
        store.observe_commits(commits((1, 5, 0), group=f"g{number}"))
    rows = len(store.windows())
    assert rows == groups * partitions
    assert store.nbytes / rows <= 450


def test_numbers_past_the_digits_of_a_float_stay_exact() -> None:
    big = 2**62 + 1
    store = store_of(2, (big, big, 0), (big + 1, big + 1, 5), end=big + 4)
    assert slots_of(store.windows()) == [(big, big, 0, 4), (big + 1, big + 1, 5, 3)]
    assert store.windows().current_lag.tolist() == [3]


def test_an_empty_store_has_an_empty_view() -> None:
    store = WindowStore(4)
    store.drop_groups(["g"])
    store.drop_topics(["t"])
    windows = store.windows()
    assert (len(windows), windows.slots) == (0, 4)
    assert isinstance(windows.take(np.zeros(0, np.intp)), Windows)


def test_empty_and_backfilled_slots_of_a_view_have_an_unknown_lag() -> None:
    windows = store_of(3, (5, 50, 5), (2, 20, 2)).windows()
    assert windows.kept.tolist() == [2]
    assert (windows.lag != UNKNOWN_LAG).tolist() == [[False, False, True]]


def test_a_checkpoint_without_a_column_of_today_leaves_its_default() -> None:
    store = store_of(3, (1, 10, 0), (2, 20, 5))
    store.note("gap")[:] = 7
    parts = [(name, rows.drop_columns(["gap"]) if name == WINDOWS else rows) for name, rows in save(store)]

    restored = WindowStore(3)
    load(restored, parts)

    assert described(restored) == described(store)
    assert restored.note("gap").tolist() == [0]
