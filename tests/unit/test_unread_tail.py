"""Unread tails: when a broker is queried about a small lag, and how its answer changes verdicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lagwatch.broker_queries import TailAnswers, TailContent, TailQuery
from lagwatch.clock import Moment, SettableClock
from lagwatch.evaluation import Policies, PolicySettings
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.pipeline.queries.unread_tail import MAX_QUERIES, MAX_TRACKED
from lagwatch.protocols import Collected
from lagwatch.verdict.policy import ALL_EXTENSIONS, Extension
from lagwatch.verdict.status import Mode, VerdictRule
from tests.harness.polls import poll
from tests.harness.simulated_consumers import Behaviour, Log, Rate, SimulatedGroup, Simulation, Verdict

from_both = pytest.mark.parametrize("from_topic", [False, True], ids=["from polls", "from the offsets topic"])
Answer = Callable[[TailQuery], TailContent]


class PolledPipeline:
    """A pipeline that is shown polls, 10 s apart."""

    def __init__(self, rules: PolicySettings | None = None) -> None:
        self.clock = SettableClock()
        self.pipeline = Pipeline("east")
        self.pipeline.evaluator.policies = Policies(rules)

    def see(self, ends: dict[tuple[str, int], int | None], commits: dict[tuple[str, str, int], int]) -> None:
        self.clock.advance(10)
        self.pipeline.observe("kafka", poll(ends, commits, at_ms=self.clock.wall_ms()), 0.1, Moment.now(self.clock))

    def queried(self) -> list[tuple[str, int, int, int]]:
        """Topic, partition, offset and end of the queries, taken."""
        wanted = self.pipeline.unread_tails.queries.take()
        return [] if wanted is None else named(wanted)

    def answer(self, key: int, offset: int, end: int, left: TailContent) -> None:
        self.pipeline.observe(
            "kafka_unread",
            Collected([], [], tail_answers=tail_answers([key], [offset], [end], left)),
            0.1,
            Moment.now(self.clock),
        )


def named(wanted: TailQuery) -> list[tuple[str, int, int, int]]:
    columns = (wanted.topic.codes, wanted.partition, wanted.offset, wanted.end)
    return [(wanted.topic.values[t], p, o, e) for t, p, o, e in zip(*(c.tolist() for c in columns), strict=True)]


def tail_answers(key: list[int], offset: list[int], end: list[int], left: TailContent) -> TailAnswers:
    left_of_each = np.full(len(key), left, np.int8)
    return TailAnswers(np.array(key, np.int64), np.array(offset, np.int64), np.array(end, np.int64), left_of_each)


def test_a_broker_is_queried_when_neither_commit_nor_end_moved() -> None:
    watched = PolledPipeline()
    for end, committed, expected in ((9, 7, []), (9, 8, []), (10, 8, []), (10, 8, [("t", 0, 8, 10)]), (10, 8, [])):
        watched.see({("t", 0): end}, {("g", "t", 0): committed})
        assert watched.queried() == expected


@pytest.mark.parametrize(("committed", "queried"), [(100, False), (99, True), (90, True), (89, False)])
def test_only_a_small_lag_is_queried(committed: int, queried: bool) -> None:
    watched = PolledPipeline()
    for _ in range(2):
        watched.see({("t", 0): 100}, {("g", "t", 0): committed})
    assert bool(watched.queried()) is queried


@pytest.mark.parametrize(
    "rules", [PolicySettings(mode=Mode.BURROW), PolicySettings(extensions=ALL_EXTENSIONS & ~Extension.MARKERS)]
)
def test_groups_whose_rules_ignore_tails_are_not_queried(rules: PolicySettings) -> None:
    watched = PolledPipeline(rules)
    for _ in range(3):
        watched.see({("t", 0): 9}, {("g", "t", 0): 8})
    assert watched.queried() == []


def test_an_answer_is_kept_until_the_group_moves() -> None:
    watched = PolledPipeline()
    for _ in range(2):
        watched.see({("t", 0): 9}, {("g", "t", 0): 8})
    wanted = watched.pipeline.unread_tails.queries.take()
    assert wanted is not None
    watched.answer(int(wanted.key[0]), 8, 9, TailContent.NOTHING)
    for _ in range(20):
        watched.see({("t", 0): 9}, {("g", "t", 0): 8})
        assert watched.queried() == []
    for _ in range(2):
        watched.see({("t", 0): 11}, {("g", "t", 0): 10})
    assert watched.queried() == [("t", 0, 10, 11)]


def test_a_query_without_an_answer_is_repeated_after_a_minute() -> None:
    watched = PolledPipeline()
    queried = []
    for number in range(20):
        watched.see({("t", 0): 9}, {("g", "t", 0): 8})
        if watched.queried():
            queried.append(number)
    assert queried == [1, 7, 13, 19]


def test_a_partition_is_queried_for_one_offset_at_a_time_in_turn() -> None:
    watched = PolledPipeline()
    found = []
    for _ in range(4):
        watched.see({("t", 0): 9}, {("g", "t", 0): 8, ("h", "t", 0): 8, ("i", "t", 0): 5, ("j", "t", 0): 9})
        found += watched.queried()
    assert found == [("t", 0, 8, 9), ("t", 0, 5, 9)]


def test_tails_above_the_query_limit_are_queried_in_turn() -> None:
    watched = PolledPipeline()
    count = 2 * MAX_QUERIES + 3
    ends: dict[tuple[str, int], int | None] = {("t", p): 9 for p in range(count)}
    found = []
    for _ in range(4):
        watched.see(ends, {("g", "t", p): 8 for p in range(count)})
        found.append(watched.queried())
    assert [len(questions) for questions in found] == [0, MAX_QUERIES, MAX_QUERIES, 3]
    assert len({question for questions in found for question in questions}) == count


def test_queries_that_no_job_takes_are_kept() -> None:
    watched = PolledPipeline()
    for _ in range(2):
        watched.see({("t", 0): 9, ("u", 0): 9}, {("g", "t", 0): 8})
    for _ in range(2):
        watched.see({("t", 0): 9, ("u", 0): 9}, {("g", "t", 0): 8, ("g", "u", 0): 8})
    assert watched.queried() == [("t", 0, 8, 9)]
    watched.see({("t", 0): 9, ("u", 0): 9}, {("g", "t", 0): 8, ("g", "u", 0): 8})
    assert watched.queried() == [("u", 0, 8, 9)]


def test_an_answer_about_a_recreated_topic_is_ignored() -> None:
    watched = PolledPipeline()
    for _ in range(2):
        watched.see({("t", 0): 9}, {("g", "t", 0): 8})
    wanted = watched.pipeline.unread_tails.queries.take()
    assert wanted is not None
    watched.clock.advance(10)
    again = poll({("t", 0): 9}, {("g", "t", 0): 8}, topic_ids={"t": "another"})
    watched.pipeline.observe("kafka", again, 0.1, Moment.now(watched.clock))
    watched.answer(int(wanted.key[0]), 8, 9, TailContent.NOTHING)
    watched.see({("t", 0): 9}, {("g", "t", 0): 8})
    assert watched.pipeline.evaluator.store.note("proved").tolist() == [0]


# Verdicts: simulated consumers, and brokers that answer truly.


def run(simulation: Simulation, seconds: int, answer: Answer | None) -> list[Verdict]:
    """Continue for this long; the queries of a poll are answered before the next one."""
    verdicts: list[Verdict] = []
    for _ in range(seconds // 10):
        verdicts += simulation.run(10)["g"]
        wanted = simulation.state.pipeline.unread_tails.queries.take()
        if wanted is not None and answer is not None:
            columns = (wanted.key.tolist(), wanted.offset.tolist(), wanted.end.tolist())
            simulation.see("kafka_unread", Collected([], [], tail_answers=tail_answers(*columns, answer(wanted))))
    return verdicts


def only_markers(_: TailQuery) -> TailContent:
    return TailContent.NOTHING


def records(_: TailQuery) -> TailContent:
    return TailContent.RECORDS


def varying_then_idle(second: int, log: Log, group: SimulatedGroup) -> None:
    """Never the same lag twice while there is traffic; then all is read but the last marker."""
    if second <= 300 and second % 5 == 0:
        group.commit(max(int(log.end) - 1 - (second // 5) % 7, 0))
    elif second == 305:
        group.commit(int(log.end) - 1)


def idle_when_we_came(_: int, __: Log, group: SimulatedGroup) -> None:
    group.committed = 999


def gone_when_we_came(_: int, __: Log, group: SimulatedGroup) -> None:
    group.committed, group.members = 999, False


def busy_for_five_minutes(second: int) -> float:
    return 20.0 if second <= 300 else 0.0


def all_at_once(second: int) -> float:
    return 1000.0 if second == 1 else 0.0


STORIES: dict[str, tuple[Behaviour, Rate]] = {
    "varying then idle": (varying_then_idle, busy_for_five_minutes),
    "idle when we came": (idle_when_we_came, all_at_once),
    "gone when we came": (gone_when_we_came, all_at_once),
}


@from_both
@pytest.mark.parametrize("story", STORIES)
def test_a_tail_of_markers_stays_ok_and_a_tail_with_a_record_does_not(story: str, from_topic: bool) -> None:
    answered = Simulation({"g": STORIES[story]}, from_topic=from_topic)
    verdicts = run(answered, 900, only_markers)
    assert {verdict.status for verdict in verdicts} == {"OK"}
    assert verdicts[-1].lag == 1
    assert [row["rule"] for row in last_lag(answered)] == [VerdictRule.ONLY_MARKERS]
    evaluated = answered.state.pipeline.evaluator.rows
    assert evaluated is not None
    assert "markers, not messages" in evaluated.why(0)

    unread = Simulation({"g": STORIES[story]}, from_topic=from_topic)
    told = run(unread, 900, records)
    without = run(Simulation({"g": STORIES[story]}, from_topic=from_topic), 900, None)
    assert told == without
    if not (from_topic and story == "idle when we came"):  # a group that does not commit at all: see NEVER_MOVED
        assert told[-1].status in {"STALL", "STOP"}


def last_lag(simulation: Simulation) -> list[dict[str, object]]:
    batches = next(b for b in reversed(simulation.batches) if any(one.table == "consumer_lag" for one in b))
    return [row for one in batches if one.table == "consumer_lag" for row in one.rows.to_pylist()]


def always_one_behind(second: int, log: Log, group: SimulatedGroup) -> None:
    """At each poll one message has just arrived; in the end it leaves a real one unread."""
    if second <= 300 and second % 5 == 0:
        group.commit(max(int(log.end) - 1, 0))


def test_a_learned_remainder_is_refuted_by_a_broker_that_finds_a_record() -> None:
    story: tuple[Behaviour, Rate] = (always_one_behind, busy_for_five_minutes)
    guessed = run(Simulation({"g": story}), 900, None)
    assert {verdict.status for verdict in guessed} == {"OK"}, "the guess, and what it costs"
    told = run(Simulation({"g": story}), 900, records)
    assert told[-1].status == "STALL"


def test_proof_ends_when_the_group_moves() -> None:
    def moves_on(second: int, _: Log, group: SimulatedGroup) -> None:
        group.committed = 999 if second < 200 else 1004

    def rate(second: int) -> float:
        return {1: 1000.0, 200: 5.0}.get(second, 0.0)

    simulation = Simulation({"g": (moves_on, rate)})
    run(simulation, 190, only_markers)
    assert simulation.state.pipeline.evaluator.store.note("proved").tolist() == [1]
    run(simulation, 30, None)
    assert simulation.state.pipeline.evaluator.store.note("proved").tolist() == [0]


@from_both
@pytest.mark.parametrize("answer", [only_markers, records])
@pytest.mark.parametrize("at", [340, 500])
def test_a_restart_changes_no_verdict_since_answers_are_journalled(at: int, answer: Answer, from_topic: bool) -> None:
    stories: list[tuple[Behaviour, Rate]] = [STORIES["varying then idle"], (always_one_behind, busy_for_five_minutes)]
    for story in stories:
        whole = run(Simulation({"g": story}, from_topic=from_topic), 700, answer)
        halved = Simulation({"g": story}, from_topic=from_topic)
        verdicts = run(halved, at, answer)
        halved.restart()
        verdicts += run(halved, 700 - at, answer)
        assert verdicts == whole


def test_above_the_tracking_limit_the_smallest_lags_are_tracked() -> None:
    watched = PolledPipeline()
    commits = {(f"g{number}", "t", number % 50): 100 - (1 if number < 20 else 9) for number in range(MAX_TRACKED + 30)}
    ends: dict[tuple[str, int], int | None] = {("t", partition): 100 for partition in range(50)}
    for _ in range(2):
        watched.see(ends, commits)
    positions = len(watched.pipeline.unread_tails._queried)
    assert positions == 70, "twenty with a lag of 1, and those of 50 partitions with a lag of 9"
    assert [offset for _, _, offset, _ in watched.queried()].count(99) == 20
