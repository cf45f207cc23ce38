"""For any history of records, polls and answers the true time lag is within the bounds, also across restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.batch import decode_rows, encode_rows
from lagwatch.broker_queries import TimestampAnswers
from lagwatch.time_lag import EndHistory, SelectedTimestamps, TimeLag, pack, unpack
from tests.harness.simulated_log import SimulatedLog, Watcher

T0 = 1_700_000_000_000
SLACK_MS = 1000
POLL_MS = 10_000
ROOM_FOR_8 = 230  # bytes: one partition with the fewest points, which are thinned all the time

GAPS = st.lists(st.sampled_from([0, 0, 1, 50, 900, 4000, 30_000, 3_600_000]), min_size=1, max_size=80)
DELAYS = st.lists(st.sampled_from([0, 0, 3, 200, SLACK_MS]), min_size=80, max_size=80)
# Time since the poll before, duration of the request, and the position of the group as a share of the log.
POLL = st.tuples(st.sampled_from([500, POLL_MS, POLL_MS, 60_000]), st.integers(0, 3000), st.floats(0, 1))
POLLS = st.lists(POLL, min_size=1, max_size=60)


@dataclass(frozen=True)
class LogStory:
    """A log, and polls of it by an agent that came when some of it was there."""

    log: SimulatedLog
    first_poll_ms: int
    polls: Sequence[tuple[int, int, float]]


@st.composite
def stories(draw: st.DrawFn) -> LogStory:
    """Any records, each at most the slack older than its place in the log, and any polls from anywhere in it."""
    appended = T0 + np.cumsum(draw(GAPS))
    log = SimulatedLog(appended, draw(DELAYS)[: len(appended)])
    start = draw(st.integers(0, len(appended) - 1))
    return LogStory(log, int(appended[start]) - 1 + draw(st.integers(0, 20_000)), draw(POLLS))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(stories(), st.floats(0, 1), st.floats(0, 1), st.sampled_from([ROOM_FOR_8, 10**6]))
def test_the_truth_is_within_the_bounds_of_any_history(
    story: LogStory, read_at: float, retained: float, budget: int
) -> None:
    watcher = Watcher(story.log, EndHistory(slack_ms=SLACK_MS, budget_bytes=budget), POLL_MS)
    sent = story.first_poll_ms
    for number, (pause, took, position) in enumerate(story.polls):
        sent += pause
        end = story.log.end(sent)
        start = int(end * retained * number / len(story.polls))  # the log's head goes while it is watched
        committed = int(position * end)
        found = watcher.poll(sent, sent + int(took * read_at), sent + took, committed, start=start)
        sent += took
        assert found.inside, found
        assert not found.known or found.low <= found.seconds <= found.high


@settings(max_examples=60, deadline=None, derandomize=True)
@given(stories())
def test_repeated_queries_find_the_exact_record(story: LogStory) -> None:
    history = EndHistory(slack_ms=0)
    log = SimulatedLog(story.log.appended)
    watcher = Watcher(log, history, poll_ms=2)
    at = int(log.appended[-1]) + 3_600_000
    committed = len(log.appended) // 2
    for _ in range(50):
        found = watcher.poll(at, at, at, committed)
        at += 2
    truth = log.age_seconds(committed, at - 2)
    assert found.known
    assert abs(found.seconds - truth) <= max(
        0.01, 0.041 * truth
    )  # the full width of a bracket that is no longer queried


@dataclass(frozen=True)
class Observed:
    """What one poll brought for many partitions at once."""

    end: Any
    sent_ms: int


@st.composite
def many(draw: st.DrawFn) -> tuple[list[Observed], int]:
    """Ends of some partitions over some polls; they grow, stay, and sometimes fall."""
    partitions = draw(st.integers(1, 5))
    steps = st.lists(st.sampled_from([0, 0, 1, 5, 100, -3]), min_size=partitions, max_size=partitions)
    end, polls = np.zeros(partitions, np.int64), []
    for number, step in enumerate(draw(st.lists(steps, min_size=1, max_size=120))):
        end = np.maximum(end + np.array(step), 0)
        polls.append(Observed(end, T0 + number * POLL_MS))
    return polls, draw(st.integers(0, 500))


KEYS = np.arange(5, dtype=np.int64) * 3 + (7 << 20)


def _step(
    history: EndHistory, poll: Observed, behind: int, cuts: Sequence[int] = ()
) -> tuple[TimeLag, SelectedTimestamps]:
    """One poll of all partitions, with an answer to everything it wants."""
    keys = KEYS[: len(poll.end)]
    parts = np.split(np.arange(len(keys)), sorted(cut for cut in cuts if cut < len(keys)))
    for part in parts:
        history.observe(keys[part], poll.end[part], poll.sent_ms, poll.sent_ms + 20)
    committed = np.maximum(poll.end - behind, 0)
    lag = history.lag_of(keys, committed, poll.end, poll.sent_ms + 20)
    wanted = history.next_queries(keys, committed, lag, poll.sent_ms + 20, poll_ms=POLL_MS, limit=3)
    offset = np.maximum(wanted.end - 40, 0)
    answers = TimestampAnswers(
        wanted.key, wanted.target_ms, wanted.end, offset, np.maximum(wanted.target_ms, T0 - 10**8) + offset
    )
    for part in np.split(np.arange(len(answers)), sorted(cut for cut in cuts if cut < len(answers))):
        history.observe_timestamps(answers.take(part), poll.sent_ms + 30)
    return lag, wanted


def _same(one: TimeLag, other: TimeLag) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(many(), st.lists(st.integers(1, 4), max_size=3))
def test_how_a_poll_is_cut_into_parts_changes_nothing(story: tuple[list[Observed], int], cuts: list[int]) -> None:
    polls, behind = story
    at_once, in_parts = EndHistory(), EndHistory()
    for poll in polls:
        assert _same(_step(at_once, poll, behind)[0], _step(in_parts, poll, behind, cuts)[0])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(many(), st.floats(0, 1))
def test_a_restart_in_the_middle_changes_nothing(story: tuple[list[Observed], int], when: float) -> None:
    polls, behind = story
    without, restarted = EndHistory(), EndHistory()
    for number, poll in enumerate(polls):
        if number == int(when * len(polls)):
            packed = decode_rows(encode_rows(pack(restarted, lambda topic: (f"topic-{topic}", "id"))))
            restarted = EndHistory()
            unpack(packed, restarted, lambda topic, _: int(topic.removeprefix("topic-")))
        (lag, wanted), (lag_2, wanted_2) = _step(without, poll, behind), _step(restarted, poll, behind)
        assert _same(lag, lag_2)
        assert np.array_equal(wanted.key, wanted_2.key)
        assert np.array_equal(wanted.target_ms, wanted_2.target_ms)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(0, 2**32))
def test_points_of_all_partitions_together_stay_within_their_size(lagging: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = np.arange(40, dtype=np.int64)
    history = EndHistory(budget_bytes=20_000)
    end = np.zeros(40, np.int64)
    for number, count in enumerate(lagging):
        end = end + random.integers(0, 9, 40)
        at = T0 + number * POLL_MS
        history.observe(keys, end, at, at)
        committed = np.where(keys < count, 0, end)
        lag = history.lag_of(keys, committed, end, at)
        history.next_queries(keys, committed, lag, at, poll_ms=POLL_MS, limit=10)
        points = history.older.table["offset"]
        assert points.size * 25 <= 20_000
        assert (history.older.table["count"] <= history.older.slots).all()
        assert (lag.low <= lag.high)[lag.known].all()
