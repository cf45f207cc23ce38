"""The demo's behaviours: rates, parameter checks, the tables, and the restart of killed brokers."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lagwatch.demo.behaviours import (
    Bursting,
    CommittingWithoutMembers,
    Consuming,
    Restarting,
    Rewinding,
    Stalling,
    Stopping,
)
from lagwatch.demo.broker_restarter import BrokerRestarter
from lagwatch.demo.client_thread import ClientThread, RunContext, finish_within, running
from lagwatch.demo.exactly_once import Transforming
from lagwatch.demo.producers import Producing
from lagwatch.demo.rate import Every, Rate
from lagwatch.demo.workload import GROUP_DESCRIPTIONS, GROUPS, TOPICS
from tests.harness.waiting import wait_until


def test_a_rate_gives_its_rate_whatever_the_steps_are() -> None:
    rate = Rate(12)
    assert sum(rate.due(step / 7) for step in range(71)) in {119, 120}  # ten seconds


def test_a_rate_does_not_make_up_for_a_pause() -> None:
    rate = Rate(10)
    rate.due(0.0)
    assert rate.due(60.0) == 10


def test_a_rate_below_one_a_second_comes_to_its_records_too() -> None:
    rate = Rate(0.5)
    assert [rate.due(second) for second in range(5)] == [0, 0, 1, 0, 1]


def test_something_rare_is_done_at_once_and_then_rarely() -> None:
    every = Every(120)
    assert [second for second in range(0, 300, 10) if every.is_due(second)] == [0, 120, 240]
    every.missed()
    assert every.is_due(241)


def test_traffic_is_uneven_and_the_same_each_time() -> None:
    producing = Producing("clicks", 16, (5, 1, 1, 1), seed=3)
    first, second = (producing.partitions_of_next(800, random.Random(producing.seed)) for _ in range(2))
    assert first == second
    assert 450 < first.count(0) < 550
    assert {first.count(partition) > 60 for partition in (1, 2, 3)} == {True}


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Producing("t", 0, (1,)), "per_second must be above zero"),
    (lambda: Producing("t", 1, ()), "shares must be above zero"),
    (lambda: Consuming("g", "t", per_second=-1), "per_second must be above zero, not -1"),
    (lambda: Consuming("g", "t", per_second=0), "per_second must be above zero"),
    (lambda: Consuming("g", "t", commit_every_seconds=0), "commit_every_seconds must be above zero"),
    (lambda: Stalling("g", "t", works_for_seconds=0), "works_for_seconds must be above zero"),
    (lambda: Stopping("g", "t", works_for_seconds=float("nan")), "works_for_seconds must be above zero"),
    (lambda: Restarting("g", "t", away_seconds=0), "away_seconds must be above zero"),
    (lambda: Bursting("g", "t", every_seconds=5, burst_seconds=5), "every_seconds_less_burst_seconds"),
    (lambda: Rewinding("g", "t", every_seconds=5, catch_up_seconds=9), "every_seconds_less_catch_up_seconds"),
    (lambda: CommittingWithoutMembers("g", "t", commit_every_seconds=-1), "commit_every_seconds must be above zero"),
    (lambda: Transforming("g", "t", "t"), "to_topic must not be t"),
    (lambda: Transforming("g", "t", "u", transaction_every_seconds=0), "transaction_every_seconds"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_a_parameter_that_makes_no_sense_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_each_group_has_a_name_of_its_own_and_a_short_sentence() -> None:
    assert len(GROUP_DESCRIPTIONS) == len(GROUPS) == 10
    assert all(10 < len(what) <= 50 for what in GROUP_DESCRIPTIONS.values())


def test_the_groups_read_topics_that_exist_and_the_slow_one_is_slow() -> None:
    topics = {topic.name: topic for topic in TOPICS}
    members = [member for group in GROUPS for member in group.members]
    assert {member.topic for member in members} <= topics.keys()  # type: ignore[attr-defined]
    [slow] = [member for member in members if isinstance(member, Consuming) and member.per_second]
    assert 0.5 < (slow.per_second or 0) / topics[slow.topic].per_second < 0.9
    assert sum(topic.per_second for topic in TOPICS) < 50


def test_topics_differ_in_partitions_and_their_partitions_in_traffic() -> None:
    assert len({len(topic.shares) for topic in TOPICS}) > 3
    assert sum(len(set(topic.shares)) > 1 for topic in TOPICS) >= 3


@dataclass(frozen=True)
class _Anywhere:
    bootstrap: str = "127.0.0.1:1"


class _Failing:
    """Fails so often, then works until it is stopped."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.works = threading.Event()

    def run(self, bootstrap: str, context: RunContext) -> None:
        assert bootstrap == "127.0.0.1:1"
        if self.left:
            self.left -= 1
            raise ConnectionError("the broker was killed")
        self.works.set()
        context.wait(60)


def test_a_behaviour_that_fails_begins_again() -> None:
    behaviour = _Failing(1)
    with running(behaviour, _Anywhere()) as [one]:
        assert behaviour.works.wait(10)
        assert (one.alive, one.failures) == (True, 1)
    assert not one.alive


def test_a_behaviour_that_is_done_is_not_begun_again() -> None:
    class Done:
        runs = 0

        def run(self, bootstrap: str, context: RunContext) -> None:  # noqa: ARG002
            self.runs += 1

    behaviour = Done()
    one = ClientThread(behaviour, _Anywhere())
    wait_until(lambda: not one.alive, 5)
    assert (one.stop(), behaviour.runs) == (True, 1)


def test_several_behaviours_run_side_by_side_and_are_stopped_together() -> None:
    behaviours = [_Failing(0) for _ in range(5)]
    with running(behaviours, _Anywhere()) as all_running:
        assert all(behaviour.works.wait(5) for behaviour in behaviours)
    assert [one.alive for one in all_running] == [False] * 5


def test_work_that_hangs_is_abandoned() -> None:
    never = threading.Event()
    with pytest.raises(TimeoutError, match="not finished within 0 s"):
        finish_within(0.1, RunContext(), never.wait)  # type: ignore[arg-type]
    never.set()


def test_work_that_hangs_is_abandoned_at_the_end_of_life() -> None:
    never, context = threading.Event(), RunContext()
    context.stop()
    with pytest.raises(TimeoutError):
        finish_within(3600, context, never.wait)  # type: ignore[arg-type]
    never.set()


def test_work_that_fails_says_why() -> None:
    with pytest.raises(ZeroDivisionError):
        finish_within(5, RunContext(), lambda: print(1 / 0))
    finish_within(5, RunContext(), lambda: None)


@dataclass
class _FakeNode:
    id: int
    running: bool = True
    launches: int = 0

    def launch(self) -> None:
        self.running = True
        self.launches += 1


def test_a_killed_broker_is_brought_back_after_a_while() -> None:
    nodes = [_FakeNode(1), _FakeNode(2)]
    restarter = BrokerRestarter(lambda: nodes, down_seconds=30)
    assert restarter.restart_due(0) == []
    nodes[1].running = False
    assert [restarter.restart_due(now) for now in (10, 25, 39)] == [[], [], []]
    assert restarter.back_in_seconds(2, 39) == 1
    assert restarter.back_in_seconds(1, 39) is None
    assert restarter.restart_due(40) == [2]
    assert [(node.running, node.launches) for node in nodes] == [(True, 0), (True, 1)]
    assert restarter.back_in_seconds(2, 41) is None


def test_a_broker_killed_again_waits_as_long_again() -> None:
    nodes = [_FakeNode(1, running=False)]
    restarter = BrokerRestarter(lambda: nodes, down_seconds=30)
    restarter.restart_due(0)
    assert restarter.restart_due(30) == [1]
    nodes[0].running = False
    assert [restarter.restart_due(now) for now in (31, 60, 61)] == [[], [], [1]]
