"""Thinning keeps the first poll of each interval, in any order of polls."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lagwatch.sinks.archive.thinning import HourTimes
from lagwatch.thinning import FirstOfSpan


def test_the_first_of_each_span_is_kept_for_each_key() -> None:
    thinning = FirstOfSpan(1000)
    assert [thinning.keeps("a", at) for at in (0, 100, 1000, 1999, 2000)] == [True, False, True, False, True]
    assert thinning.keeps("b", 100), "another key has spans of its own"
    assert thinning.keeps("a", 0), "the same poll again is kept again"


def test_an_earlier_poll_that_comes_later_is_kept() -> None:
    thinning = FirstOfSpan(1000)
    assert [thinning.keeps("a", at) for at in (500, 700, 300, 400)] == [True, False, True, False]


def test_a_span_of_zero_keeps_everything() -> None:
    thinning = FirstOfSpan(0)
    assert all([thinning.keeps("a", 5), thinning.keeps("a", 5), thinning.keeps("a", 6)])


def test_with_one_span_remembered_a_clock_set_back_loses_no_poll() -> None:
    thinning = FirstOfSpan(1000, most_spans=1)
    assert [thinning.keeps("a", at) for at in (5000, 5500, 100, 200, 5600)] == [True, False, True, False, True]


@given(st.lists(st.tuples(st.sampled_from(["kafka", "kafka_logdirs"]), st.integers(0, 300)), max_size=30), st.randoms())
def test_an_hour_keeps_the_same_times_in_whichever_order_they_come(
    polls: list[tuple[str, int]], random: Random
) -> None:
    expected = {min(at for s, at in polls if (s, at // 60) == (source, at_ms // 60)) for source, at_ms in polls}
    shuffled = list(polls)
    random.shuffle(shuffled)
    times = HourTimes(60)
    for source, at_ms in shuffled:
        if times.wants(source, at_ms):
            times.add(source, at_ms)
    assert set(times._sources) - set(times.dropped().tolist()) == expected
