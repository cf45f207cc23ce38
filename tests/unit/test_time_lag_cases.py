"""Cases in which other tools report a wrong time lag, one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from lagwatch.broker_queries import TimestampAnswers
from lagwatch.time_lag import EndHistory, TimeLag, pack, read_between, unpack
from lagwatch.time_lag.bracket import Points
from lagwatch.time_lag.estimate import NOTHING_UNREAD, OBSERVED, QUERIED
from lagwatch.time_lag.older_points import MOST_SLOTS, OlderPoints, _row_bytes

T0 = 1_700_000_000_000
KEY, OTHER = (3 << 20) | 1, (4 << 20) | 1
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def see(history: EndHistory, end: int, at_ms: int, key: int = KEY) -> list[int]:
    """One end, read at one moment; the keys whose log was cut off."""
    return [int(cut) for cut in history.observe(ints(key), ints(end), at_ms, at_ms)]


def lag(history: EndHistory, committed: int, end: int, now_ms: int, key: int = KEY) -> TimeLag:
    return history.lag_of(ints(key), ints(committed), ints(end), now_ms)


def answer(
    history: EndHistory,
    target_ms: int,
    offset: int,
    time_ms: int,
    *,
    end: int = 0,
    now_ms: int = T0,
    dense: bool = True,
) -> None:
    timestamp_answers = TimestampAnswers(ints(KEY), ints(target_ms), ints(end), ints(offset), ints(time_ms))
    history.observe_timestamps(timestamp_answers, now_ms, dense=np.array([dense]))


def bounds(found: TimeLag) -> tuple[float, float, float]:
    return float(found.low[0]), float(found.seconds[0]), float(found.high[0])


def wants(history: EndHistory, committed: Sequence[int], end: int, now_ms: int, most: int = 10) -> list[int]:
    """The times queried next, with groups at these offsets."""
    keys = np.full(len(committed), KEY)
    found = history.lag_of(keys, ints(*committed), np.full(len(keys), end), now_ms)
    wanted = history.next_queries(keys, ints(*committed), found, now_ms, poll_ms=10_000, limit=most)
    return [int(ask) for ask in wanted.target_ms]


def test_a_group_that_read_everything_has_no_lag() -> None:
    history = EndHistory()
    see(history, 10, T0)
    for committed in (10, 11):
        found = lag(history, committed, 10, T0 + DAY)
        assert bounds(found) == (0, 0, 0)
        assert found.known[0]
        assert found.source[0] == NOTHING_UNREAD


def test_an_unknown_partition_has_no_value() -> None:
    history = EndHistory()
    assert not lag(history, 1, 5, T0).known[0]
    see(history, 10, T0)
    found = lag(history, 1, 5, T0, key=OTHER)
    assert not found.known[0]
    assert not found.low_known[0]


def test_a_new_agent_knows_only_a_lower_bound() -> None:
    history = EndHistory(slack_ms=0)
    see(history, 10, T0)
    found = lag(history, 3, 10, T0 + MINUTE)
    assert not found.known[0]
    assert found.low_known[0]
    assert found.low[0] == 60


def test_a_burst_before_a_silence_keeps_its_time() -> None:
    history = EndHistory(slack_ms=0)
    for number in range(200):  # the end moved between polls 9 and 10, and then no more
        see(history, 0 if number < 10 else 1000, T0 + number * 10_000)
    found = lag(history, 500, 1000, T0 + 2_000_000)
    assert bounds(found)[0] == 1900
    assert bounds(found)[1] == pytest.approx(1905, abs=0.1)
    assert bounds(found)[2] == 1910
    assert found.source[0] == OBSERVED


def test_one_record_after_a_long_silence_is_new() -> None:
    history = EndHistory(slack_ms=0)
    for number in range(100):
        see(history, 5, T0 + number * MINUTE)
    see(history, 6, T0 + 100 * MINUTE)
    low, seconds, high = bounds(lag(history, 5, 6, T0 + 100 * MINUTE))
    assert (low, high) == (0, 60)
    assert seconds == pytest.approx(30)


def test_a_lost_poll_widens_the_bounds_and_nothing_else() -> None:
    history = EndHistory(slack_ms=0)
    see(history, 10, T0)
    see(history, 40, T0 + 5 * MINUTE)  # no broker responded in between
    assert bounds(lag(history, 25, 40, T0 + 5 * MINUTE))[::2] == (0, 300)


def test_the_end_was_read_between_request_and_response() -> None:
    history = EndHistory(slack_ms=0)
    history.observe(ints(KEY), ints(10), T0, T0 + 3000)
    history.observe(ints(KEY), ints(20), T0 + 10_000, T0 + 14_000)
    assert bounds(lag(history, 10, 20, T0 + 14_000))[::2] == (0, 14)


def test_slack_widens_the_bounds_on_both_sides() -> None:
    history = EndHistory(slack_ms=1000)
    see(history, 10, T0)
    see(history, 20, T0 + 10_000)
    assert bounds(lag(history, 10, 20, T0 + 60_000))[::2] == (49, 61)


class TestALogCutOff:
    """An unclean election took the newest records away."""

    def test_is_reported_once_and_drops_only_points_past_its_end(self) -> None:
        history = EndHistory(slack_ms=0)
        for number in range(6):
            see(history, 100 * number, T0 + number * MINUTE)
        assert see(history, 250, T0 + 6 * MINUTE) == [KEY]
        assert see(history, 250, T0 + 7 * MINUTE) == []
        assert bounds(lag(history, 150, 250, T0 + 7 * MINUTE))[::2] == (300, 360)
        assert bounds(lag(history, 220, 250, T0 + 7 * MINUTE))[::2] == (60, 300)

    def test_drops_older_points_too(self) -> None:
        history = EndHistory(slack_ms=0)
        for number in range(40):
            see(history, 100 * number, T0 + number * MINUTE)
            wants(history, [50], 100 * number, T0 + number * MINUTE)
        see(history, 1050, T0 + HOUR)
        assert history.older.table["offset"][:, 0].min() == 0
        assert bounds(lag(history, 1020, 1050, T0 + HOUR))[2] == 3600 - 600
        assert not lag(history, 1020, 1050, T0 + HOUR).skewed[0]


def test_a_recreated_topic_starts_without_history() -> None:
    history = EndHistory()
    see(history, 100, T0 - MINUTE)
    see(history, 200, T0)
    history.keep(ints(OTHER))
    see(history, 200, T0, key=OTHER)
    assert len(history) == 1
    assert not lag(history, 150, 200, T0, key=OTHER).known[0]
    assert not lag(history, 150, 200, T0).known[0]


class TestQuestions:
    """Which timestamps are queried, and what the answers prove."""

    def test_the_first_record_is_queried_first(self) -> None:
        history = EndHistory()
        see(history, 100, T0)
        assert wants(history, [30], 100, T0) == [0]

    def test_nothing_is_queried_where_polls_are_enough(self) -> None:
        history = EndHistory()
        for number in range(100):
            see(history, 100 * number, T0 + number * 10_000)
            offsets = [max(100 * number - 1500, 0), 100 * number]
            assert wants(history, offsets, 100 * number, T0 + number * 10_000) == []

    def test_an_exact_hit_closes_the_bracket(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        answer(history, 0, 0, T0 - 7 * DAY)
        answer(history, T0 - 3 * DAY, 30, T0 - 2 * DAY)
        found = lag(history, 30, 100, T0)
        assert bounds(found) == (2 * 86400, 2 * 86400, 2 * 86400)
        assert found.source[0] == QUERIED
        assert wants(history, [30], 100, T0) == []

    def test_no_record_after_a_time_bounds_all_records(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        answer(history, 0, 0, T0 - 7 * DAY)
        answer(history, T0 - DAY, -1, -1, end=100)
        assert bounds(lag(history, 99, 100, T0))[0] == 86400

    def test_an_empty_partition_gives_no_bound(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        answer(history, 0, -1, -1, end=100)
        found = lag(history, 50, 100, T0)
        assert not found.known[0]
        assert found.low[0] == 0

    def test_records_written_after_the_query_are_not_bounded_by_it(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        see(history, 150, T0 + MINUTE)
        answer(history, T0 - DAY, -1, -1, end=100, now_ms=T0 + MINUTE)
        assert bounds(lag(history, 120, 150, T0 + MINUTE))[::2] == (0, 60)

    def test_one_query_per_partition_for_the_group_with_the_widest_bounds(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        answer(history, 0, 0, T0 - 7 * DAY)
        answer(history, T0 - HOUR, 90, T0 - HOUR + 1)
        [ask] = wants(history, [90, 20], 100, T0)
        assert ask < T0 - HOUR

    def test_every_partition_gets_its_turn_under_a_small_cap(self) -> None:
        history = EndHistory()
        keys = np.arange(50, dtype=np.int64)
        queried: list[int] = []
        for number in range(10):
            now = T0 + number * 10_000
            history.observe(keys, np.full(50, 100), now, now)
            found = history.lag_of(keys, keys, np.full(50, 100), now)
            wanted = history.next_queries(keys, keys, found, now, poll_ms=10_000, limit=5)
            assert len(wanted) == 5
            queried += wanted.key.tolist()  # and no answer comes
        assert sorted(queried) == keys.tolist()

    def test_a_partition_without_new_information_is_queried_less_and_less(self) -> None:
        history = EndHistory()
        queried = 0
        for number in range(200):
            now = T0 + number * 10_000
            see(history, 1000, now)
            wanted = wants(history, [300], 1000, now)
            queried += len(wanted)
            for ask in wanted:  # compacted: nothing between 100 and 900, so the same two records again and again
                offset, time = (100, T0 - 7 * DAY) if ask <= T0 - 7 * DAY else (900, T0 - DAY)
                answer(history, ask, offset, time, end=1000, now_ms=now, dense=False)
        assert queried < 25
        assert bounds(lag(history, 300, 1000, now))[0] < 86400 + 2000 < bounds(lag(history, 300, 1000, now))[2]

    def test_the_head_of_a_compacted_topic_is_its_first_record(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 1000, T0)
        answer(history, 0, 400, T0 - DAY, dense=False)
        assert bounds(lag(history, 10, 1000, T0)) == (86400, 86400, 86400)

    def test_records_with_the_same_time_are_found_from_both_sides(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 1000, T0)
        batch = [(0, T0 - 3 * DAY), (200, T0 - 2 * DAY), (600, T0 - DAY)]  # three batches, stamped by the broker
        for number in range(30):
            now = T0 + number * 10_000
            for ask in wants(history, [500], 1000, now):
                offset, time = next((b for b in batch if b[1] >= ask), (-1, -1))
                answer(history, ask, offset, time, end=1000, now_ms=now)
        low, _, high = bounds(lag(history, 500, 1000, now))
        truth = (now - (T0 - 2 * DAY)) / 1000
        assert low <= truth <= high
        assert high - low < 0.05 * truth


class TestClocks:
    """Records have the time of their producers, ends the time of the agent."""

    @pytest.mark.parametrize("off_ms", [2 * HOUR, -2 * HOUR])
    def test_timestamps_that_contradict_observed_ends_are_ignored(self, off_ms: int) -> None:
        history = EndHistory(slack_ms=0)
        for number in range(5):
            see(history, 100 * number, T0 + number * MINUTE)
        now = T0 + 4 * MINUTE
        answer(history, T0, 250, T0 + 2 * MINUTE + off_ms, end=400, now_ms=now)
        found = lag(history, 250, 400, now)
        assert found.skewed[0]
        assert bounds(found)[::2] == (60, 120)
        assert wants(history, [250], 400, now) == []
        assert not lag(history, 250, 400, now + 2 * DAY).skewed[0]  # it may have been mended

    def test_earlier_answers_are_dropped_after_a_contradiction(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        answer(history, 0, 0, T0 - 9 * DAY)
        see(history, 200, T0 + HOUR)
        answer(history, T0, 150, T0 - DAY, end=200, now_ms=T0 + HOUR)
        found = lag(history, 20, 200, T0 + HOUR)
        assert found.skewed[0]
        assert not found.known[0]

    def test_a_small_contradiction_widens_the_bounds(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        see(history, 200, T0 + MINUTE)
        answer(history, T0 - DAY, 100, T0 - 5000, end=200, now_ms=T0 + MINUTE)  # its producer held it back for 5 s
        assert bounds(lag(history, 100, 200, T0 + MINUTE))[::2] == (55, 70)
        assert bounds(lag(history, 150, 200, T0 + MINUTE))[::2] == (0, 65)
        assert not lag(history, 100, 200, T0 + MINUTE).skewed[0]

    def test_records_before_the_one_found_can_contradict_too(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        see(history, 200, T0 + MINUTE)
        answer(history, T0 - DAY, 120, T0 + 5000, end=200, now_ms=T0 + MINUTE)  # so 100 to 119 claim to be a day old
        assert lag(history, 119, 200, T0 + MINUTE).skewed[0]

    def test_no_record_after_a_time_contradicts_an_end_that_moved_later(self) -> None:
        history = EndHistory(slack_ms=0)
        see(history, 100, T0)
        see(history, 200, T0 + MINUTE)
        answer(history, T0 - DAY, -1, -1, end=200, now_ms=T0 + MINUTE)
        assert lag(history, 119, 200, T0 + MINUTE).skewed[0]

    def test_a_clock_step_shifts_the_times_of_observed_ends(self) -> None:
        history = EndHistory(slack_ms=0)
        for number in range(40):
            see(history, 100 * number, T0 + number * MINUTE)
            wants(history, [50], 100 * number, T0 + number * MINUTE)
        now = T0 + 40 * MINUTE
        before = [bounds(lag(history, at, 3900, now)) for at in (50, 1250, 3850)]
        history.shift(HOUR)
        assert [bounds(lag(history, at, 3900, now + HOUR)) for at in (50, 1250, 3850)] == before


def test_ends_have_the_time_of_the_broker_that_reported_them() -> None:
    leader = np.array([2, 1, 2, 9], np.int32)
    sent, received = read_between(leader, {1: (5, 9), 2: (6, 40)}, T0, T0 + 900)
    assert (sent - T0).tolist() == [6, 5, 6, 0]
    assert (received - T0).tolist() == [40, 9, 40, 900]
    sent, received = read_between(leader, {}, T0, T0 + 900)
    assert (set(sent - T0), set(received - T0)) == ({0}, {900})


def test_a_partition_without_lag_costs_little() -> None:
    history, keys = EndHistory(), np.arange(20_000, dtype=np.int64)
    for number in range(10):
        history.observe(keys, keys + 100 * number, T0 + number * MINUTE, T0 + number * MINUTE)
    assert history.nbytes / len(keys) < 200
    found = history.lag_of(keys, keys, keys + 900, T0 + 10 * MINUTE)
    history.next_queries(keys, keys, found, T0 + 10 * MINUTE, poll_ms=MINUTE, limit=10)
    assert history.nbytes < 20_000 * 200 + history.budget_bytes
    history.keep(keys[:100])
    assert history.nbytes < 100 * 200 + 64 * 1700 * 4


def test_deleted_and_recreated_topics_are_not_restored() -> None:
    history = EndHistory()
    see(history, 10, T0)
    see(history, 10, T0, key=OTHER)
    packed = pack(history, {3: ("orders", "id-1"), 4: ("payments", "id-2")}.__getitem__)
    restored = EndHistory()
    unpack(packed, restored, lambda topic, topic_id: 9 if (topic, topic_id) == ("orders", "id-1") else None)
    assert restored.table.keys.tolist() == [(9 << 20) | 1]


def test_an_empty_history_is_packed_and_unpacked() -> None:
    restored = EndHistory()
    unpack(pack(EndHistory(), lambda _: ("", "")), restored, lambda *_: None)
    assert len(restored) == 0
    assert see(restored, 5, T0) == []


def test_a_checkpoint_with_other_columns_restores_nothing() -> None:
    history, restored = EndHistory(), EndHistory()
    see(history, 10, T0)
    older = pack(history, lambda _: ("orders", "id-1")).drop_columns(["last_observed"])
    unpack(older, restored, lambda *_: 3)
    assert len(restored) == 0


def test_more_partitions_on_the_same_budget_thin_the_points_of_each() -> None:
    budget = 4 * _row_bytes(MOST_SLOTS)
    points = OlderPoints(budget)
    points.follow(ints(1), ints(0))
    for number in range(MOST_SLOTS):
        points.push(
            ints(1), Points(ints(10 * number), ints(1000 * number), ints(1000 * number + 500), np.array([False]))
        )
    before = points.slots

    points.follow(np.arange(1, 9), np.zeros(8, np.int64))

    assert (before, points.slots) == (MOST_SLOTS, MOST_SLOTS // 4)
    [row] = points.table.find(ints(1))[0]
    count = int(points.table["count"][row])
    kept = points.table["offset"][:count, row].tolist()
    assert MOST_SLOTS // 8 <= count <= MOST_SLOTS // 4
    assert (kept[0], kept[-1]) == (0, 10 * (MOST_SLOTS - 1)), "the first and the last point stay"
