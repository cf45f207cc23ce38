"""Verdicts across restarts, steps of the wall clock, and sources that come and go."""

from __future__ import annotations

import numpy as np
import pytest

from lagwatch.batch import Column, make_batch
from lagwatch.catalogue import COMMIT
from lagwatch.evaluation import Policies, PolicySettings
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import COMMITS
from lagwatch.verdict.status import Mode
from tests.harness.polls import rows_of, unreachable
from tests.harness.simulated_consumers import (
    Log,
    SimulatedGroup,
    Simulation,
    Verdict,
    first,
    from_both,
    gone,
    half_speed,
    keeping_up,
    reading,
    said,
    simulate,
    standing_still,
    then,
)


def test_a_wall_clock_that_is_set_changes_no_verdict() -> None:
    simulation = simulate(keeping_up(1))
    simulation.run(300)
    simulation.clock.step_wall(3600)
    assert said(simulation.run(300)["g"]) == {"OK"}
    simulation.clock.step_wall(-7200)
    assert said(simulation.run(300)["g"]) == {"OK"}


@from_both
@pytest.mark.parametrize("at", [200, 350, 410, 700])
def test_a_restart_in_the_middle_changes_no_verdict(at: int, from_topic: bool) -> None:
    def story() -> Simulation:
        return simulate(then(keeping_up(5), 250, then(reading(10), 500, gone)), from_topic=from_topic)

    whole = story().run(900)["g"]
    halved = story()
    verdicts = halved.run(at)["g"]
    halved.restart()
    verdicts += halved.run(900 - at)["g"]
    assert verdicts == whole


@pytest.mark.parametrize("before", [False, True], ids=["polls, then topic", "topic, then polls"])
def test_another_source_of_commits_after_a_restart_fills_the_same_windows(before: bool) -> None:
    halved = simulate(then(keeping_up(5), 400, standing_still()), from_topic=before)
    halved.run(300)
    for _ in range(2):  # the choice holds for the life after the next one too
        halved.restart_from_checkpoint(from_topic=not before)
    verdicts = halved.run(900)["g"]
    assert said(verdicts, before=460) == {"OK"}
    assert said(verdicts, after=600) == {"STALL"}, "its windows stand still"
    assert halved.state.pipeline.evaluator.tailing is not before


@pytest.mark.parametrize("restarts", [False, True], ids=["no restart", "restarts"])
@pytest.mark.parametrize("allowed_first", [False, True])
def test_a_right_that_comes_and_goes_changes_the_source_and_no_verdict(allowed_first: bool, restarts: bool) -> None:
    simulation = simulate(then(keeping_up(5), 1000, standing_still()), from_topic=True)
    tailing, verdicts = [], []
    for part in range(5):
        simulation.allowed = allowed_first is (part % 2 == 0)
        verdicts += simulation.run(120)["g"]
        if restarts:
            simulation.restart_from_checkpoint()
            verdicts += simulation.run(40)["g"]
            simulation.restart()
        verdicts += simulation.run(40)["g"]
        tailing.append(simulation.state.pipeline.evaluator.tailing)
    simulation.allowed = True
    verdicts += simulation.run(600)["g"]

    assert tailing == [allowed_first is (part % 2 == 0) for part in range(5)]
    assert said(verdicts, before=1000) == {"OK"}
    assert 1060 <= first(verdicts, "STALL") <= 1120
    assert said(verdicts, after=1120) == {"STALL"}
    assert simulation.events("rewind") == []


@pytest.mark.parametrize("step_seconds", [3600, -3600])
@pytest.mark.parametrize("allowed_first", [False, True], ids=["polls, then topic", "topic, then polls"])
def test_another_source_of_commits_after_a_clock_step_finds_faults_as_soon(
    allowed_first: bool, step_seconds: int
) -> None:
    """Polls are on the steady clock and the topic on the brokers': windows change over from one to the other."""

    def verdicts(step: int) -> dict[str, list[Verdict]]:
        stalls = then(keeping_up(5), 700, standing_still())
        simulation = Simulation({"stalls": (stalls, 20.0), "slows": (half_speed(700), 20.0)}, from_topic=True)
        simulation.allowed = allowed_first
        simulation.run(300)
        simulation.clock.step_wall(step)
        simulation.run(100)
        simulation.allowed = not allowed_first
        return simulation.run(600)

    with_step, without = verdicts(step_seconds), verdicts(0)
    for name, status in (("stalls", "STALL"), ("slows", "WARN")):
        assert first(with_step[name], status) == first(without[name], status) < 900


def test_by_burrows_rules_a_failed_run_does_not_lose_the_only_commit_of_a_group() -> None:
    def commits_once(second: int, _: Log, group: SimulatedGroup) -> None:
        group.members = group.had_members = False
        if second == 5:
            group.commit(50)

    policies = Policies(PolicySettings(mode=Mode.BURROW))
    simulation = Simulation({"g": (commits_once, 20.0)}, from_topic=True, policies=policies)
    assert simulation.run(200)["g"][-1].status == "ERR"
    simulation.see(COMMITS, Collected([], [Failure(COMMITS, "", "no answer within 5 s")], complete=False))
    assert said(simulation.run(300)["g"]) == {"ERR"}


@pytest.mark.parametrize("mode", [Mode.LAGWATCH, Mode.BURROW])
def test_a_first_poll_before_the_look_back_does_not_displace_it(mode: Mode) -> None:
    simulation = Simulation({"g": (keeping_up(5), 20.0)}, policies=Policies(PolicySettings(mode=mode)))
    for _ in range(300):
        simulation._advance()
    simulation._poll()
    store = simulation.state.pipeline.evaluator.store
    assert store.windows().kept.tolist() == [1]
    simulation.see(COMMITS, Collected([simulation._commit_batch()], []))
    assert store.windows().kept.tolist() == [10]
    assert np.all(np.diff(store.windows().timestamp[0]) > 0)
    assert simulation.events("rewind") == []


def test_a_backlog_at_the_start_leaves_verdicts_to_polls_until_it_is_read() -> None:
    simulation = simulate(keeping_up(5), from_topic=True)
    simulation.backlog = 100
    verdicts = simulation.run(260)["g"]
    assert not simulation.state.pipeline.evaluator.tailing
    simulation.backlog = 20
    verdicts += simulation.run(20)["g"]
    simulation.backlog = 0
    verdicts += simulation.run(120)["g"]
    assert simulation.state.pipeline.evaluator.tailing
    assert said(verdicts) == {"OK"}
    assert simulation.events("rewind") == []


def test_polls_go_on_until_the_backlog_of_a_topic_that_may_be_read_again_is_gone() -> None:
    simulation = simulate(keeping_up(1), from_topic=True)
    simulation.run(200)
    simulation.allowed = False
    simulation.run(600)
    simulation.allowed, simulation.backlog = True, 300
    verdicts = simulation.run(20)["g"]
    assert not simulation.state.pipeline.evaluator.tailing
    simulation.backlog = 0
    verdicts += simulation.run(100)["g"]
    assert simulation.state.pipeline.evaluator.tailing
    assert said(verdicts) == {"OK"}
    assert simulation.events("rewind") == []


@pytest.mark.parametrize(("mode", "status"), [(Mode.LAGWATCH, "WARN"), (Mode.BURROW, "ERR")])
def test_commits_that_come_while_polls_fail_leave_the_last_verdict_and_its_sentence(mode: Mode, status: str) -> None:
    """The window moves on, and no longer shows what the verdict was made from."""

    def falls_back(second: int, _: Log, group: SimulatedGroup) -> None:
        group.commit(10 * (second - 300))

    late = reading(10) if mode == Mode.LAGWATCH else then(keeping_up(1), 400, falls_back)
    simulation = Simulation({"g": (late, 20.0)}, from_topic=True, policies=Policies(PolicySettings(mode=mode)))
    assert simulation.run(405)["g"][-1].status == status
    for _ in range(20):
        for _ in range(10):
            simulation._advance()
        simulation.see(COMMITS, Collected([simulation._commit_batch()], []))
        batches = simulation.see("kafka", unreachable())
    (group,) = rows_of(batches, "consumer_group")
    assert (group["status_text"], group["stale"]) == (status, True)
    assert "as of the last successful poll" in group["why"]


@pytest.mark.parametrize("at", [350, 410, 450, 700])
def test_the_look_back_after_a_restart_changes_no_verdict(at: int) -> None:
    """Commits that shared a slot are read a second time."""

    def rewinding(second: int, _: Log, group: SimulatedGroup) -> None:
        group.commit(10 * (second - 400))

    def story() -> Simulation:
        behaviour = then(keeping_up(1), 200, then(reading(10), 400, then(rewinding, 600, gone)))
        return simulate(behaviour, from_topic=True)

    whole = story().run(900)["g"]
    halved = story()
    verdicts = halved.run(at)["g"]
    halved.restart()
    halved.look_back()
    verdicts += halved.run(900 - at)["g"]
    assert verdicts == whole


@pytest.mark.parametrize("mode", [Mode.LAGWATCH, Mode.BURROW])
def test_a_stop_is_found_as_soon_after_the_machine_was_suspended_for_an_hour(mode: Mode) -> None:
    """The monotonic clock stood still meanwhile, the brokers' did not."""

    def story() -> Simulation:
        leaves = then(keeping_up(7, members=False), 700, gone)
        return Simulation({"g": (leaves, 20.0)}, from_topic=True, policies=Policies(PolicySettings(mode=mode)))

    suspended, awake = story(), story()
    suspended.run(300)
    suspended.clock.step_wall(3600)
    status = "STOP" if mode == Mode.LAGWATCH else "ERR"
    assert first(suspended.run(1200)["g"], status) <= first(awake.run(1500)["g"], status) <= 1100


def test_by_burrows_rules_a_group_that_is_silent_for_long_is_not_found_any_more() -> None:
    rules = PolicySettings(mode=Mode.BURROW, expire_ms=600_000)
    story = {"g": (then(keeping_up(), 300, gone), 20.0)}
    simulation = Simulation(story, from_topic=True, policies=Policies(rules))
    assert first(simulation.run(860)["g"], "ERR") < 860
    simulation.run(1400)
    assert simulation.state.pipeline.evaluator.store.last_commits() == {}


def test_groups_that_come_and_go_between_two_polls_are_dropped() -> None:
    simulation = simulate(keeping_up(), from_topic=True)
    simulation.run(300)
    now_ms = simulation.clock.wall_ms()
    brief: dict[str, Column] = {"group": ["brief"], "topic": ["g"], "partition": [0], "committed_offset": [1]}
    commit = make_batch(COMMIT, "east", now_ms, {**brief, "order": [1], "commit_time_ms": [now_ms]})
    simulation.see(COMMITS, Collected([commit], []))
    assert "brief" in simulation.state.pipeline.evaluator.store.last_commits()
    simulation.run(1500)
    assert list(simulation.state.pipeline.evaluator.store.last_commits()) == ["g"]
