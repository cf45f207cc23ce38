"""Consumers of every kind on a virtual clock, evaluated by lagwatch's rules from both sources of commits."""

from __future__ import annotations

import re

import pytest

from lagwatch.evaluation import Override, Policies, PolicySettings
from lagwatch.verdict.status import Mode, VerdictRule
from tests.harness.polls import poll, rows_of, unreachable
from tests.harness.simulated_consumers import (
    Behaviour,
    Log,
    Rate,
    SimulatedGroup,
    Simulation,
    first,
    from_both,
    gone,
    keeping_up,
    reading,
    said,
    simulate,
    standing_still,
    then,
)

HOUR = 3600


def restarting(second: int, log: Log, group: SimulatedGroup) -> None:
    """Deployed again and again: works for 40 s, is away for 40 s."""
    group.members = second % 80 < 40
    if group.members:
        group.commit(int(log.end))


def repeating_its_commit_after_a_pause(second: int, log: Log, group: SimulatedGroup) -> None:
    """Works for 40 s, is away for 40 s, and commits its old offset once more before it reads."""
    group.members = second % 80 < 40
    if second % 80 == 0 and group.committed is not None:
        group.commit(group.committed)
    elif group.members and second % 10 == 0:
        group.commit(max(int(log.end) - second % 80, 0))


def bursting(second: int, log: Log, group: SimulatedGroup) -> None:
    """Reads nothing for 25 s, then everything within 5."""
    if second % 30 < 5:
        group.commit(int(log.end))


def transactional(second: int, log: Log, group: SimulatedGroup) -> None:
    """Commits the offset after the last message; the marker behind it is never read."""
    if second % 5 == 0:
        group.commit(max(int(log.end) - 1, 0))


HEALTHY: dict[str, tuple[Behaviour, Rate]] = {
    "commits-every-second": (keeping_up(1), 20.0),
    "commits-every-2-minutes": (keeping_up(120), 20.0),
    "commits-every-5-minutes": (keeping_up(300), 20.0),
    "commits-every-minute-without-members": (keeping_up(60, members=False), 20.0),
    "restarts-for-40-s": (restarting, 20.0),
    "repeats-its-commit-after-a-pause": (repeating_its_commit_after_a_pause, 5.5),
    "reads-in-bursts": (bursting, 20.0),
    "one-message-a-minute": (keeping_up(1), lambda second: float(second % 60 == 0)),
    "traffic-in-bursts": (keeping_up(5), lambda second: 5000.0 if second % 600 < 5 else 0.1),
    "transactional": (transactional, lambda second: 5.0 if second % 600 < 300 else 0.0),
    "long-silences": (keeping_up(5), lambda second: 20.0 if second % 3600 < 1200 else 0.0),
}


@from_both
def test_healthy_consumers_are_always_ok(from_topic: bool) -> None:
    verdicts = Simulation(HEALTHY, from_topic=from_topic).run(2 * HOUR)
    assert {name: len(of_one) >= 690 for name, of_one in verdicts.items()} == dict.fromkeys(HEALTHY, True)
    bad = {name: [one for one in of_one if one.status != "OK"][:2] for name, of_one in verdicts.items()}
    assert bad == {name: [] for name in HEALTHY}


@from_both
@pytest.mark.parametrize("poll_seconds", [1, 5, 10, 30])
def test_a_half_speed_consumer_is_warn_within_three_minutes(from_topic: bool, poll_seconds: int) -> None:
    """Burrow says OK for ever: its lag is against an end as old as its last look."""
    pair = Simulation(
        {"slow": (reading(10), 20.0), "quick": (reading(40), 20.0)}, from_topic=from_topic, poll_seconds=poll_seconds
    )
    verdicts = pair.run(600)

    assert first(verdicts["slow"], "WARN") <= 180
    assert said(verdicts["slow"], after=180) == {"WARN"}
    assert "its lag grew from" in verdicts["slow"][-1].why
    assert said(verdicts["quick"]) == {"OK"}
    slow = next(row for row in pair.rows("consumer_group") if row["group"] == "slow")
    assert slow["consume_rate"] == pytest.approx(10, rel=0.1)
    assert slow["produce_rate"] == pytest.approx(20, rel=0.1)
    assert (slow["falling_behind"], slow["catch_up_seconds"]) == (True, None)


def test_by_burrows_rules_a_half_speed_consumer_stays_ok() -> None:
    burrow = Policies(PolicySettings(mode=Mode.BURROW))
    simulation = Simulation({"g": (reading(10), 20.0)}, from_topic=True, policies=burrow)
    assert said(simulation.run(1800)["g"]) == {"OK"}


def test_a_consumer_that_catches_up_has_a_forecast() -> None:
    simulation = simulate(then(gone, 600, reading(60)))
    simulation.consumers["g"].group.committed = 0
    simulation.run(720)
    (group,) = simulation.rows("consumer_group")
    left = simulation.consumers["g"].log.end - (simulation.consumers["g"].group.committed or 0)
    assert group["catch_up_seconds"] == pytest.approx(left / (60 - 20), rel=0.15)
    assert not group["falling_behind"]


@from_both
def test_a_live_consumer_that_does_not_move_is_stalled(from_topic: bool) -> None:
    verdicts = simulate(then(keeping_up(1), 300, standing_still()), from_topic=from_topic).run(1200)["g"]
    assert 360 <= first(verdicts, "STALL") <= 300 + 180
    assert verdicts[-1].status == "STALL"
    assert said(verdicts, before=360) == {"OK"}
    assert "messages are unread" in verdicts[-1].why


@pytest.mark.parametrize("poll_seconds", [5, 10])
def test_from_polls_a_stall_is_found_once_it_has_lasted_twice_the_patience(poll_seconds: int) -> None:
    """Before, its moves had to leave the window first: 140 s."""
    stalls = {"g": (then(keeping_up(2), 300, standing_still()), 20.0)}
    verdicts = Simulation(stalls, poll_seconds=poll_seconds).run(900)["g"]
    assert 300 + 120 <= first(verdicts, "STALL") <= 300 + 130
    assert said(verdicts, after=300 + 130) == {"STALL"}


def test_from_polls_a_pause_of_less_than_twice_the_patience_is_ok() -> None:
    def pauses(second: int, log: Log, group: SimulatedGroup) -> None:
        if second % 1200 < 1090 and second % 5 == 0:
            group.commit(int(log.end))

    assert said(Simulation({"g": (pauses, 20.0)}, poll_seconds=5).run(HOUR)["g"]) == {"OK"}


@pytest.mark.parametrize("worked_seconds", [4, 10, 20])
def test_a_full_window_of_one_offset_is_a_stall_before_any_rhythm_is_known(worked_seconds: int) -> None:
    """Polls saw it move less than twice, which used to mean five minutes of patience."""
    stalls = {"g": (then(keeping_up(2), worked_seconds, standing_still()), 20.0)}
    verdicts = Simulation(stalls, from_topic=True, poll_seconds=10).run(600)["g"]
    assert 90 <= first(verdicts, "STALL") <= worked_seconds + 110
    assert said(verdicts, after=worked_seconds + 110) == {"STALL"}


@from_both
def test_a_group_whose_members_left_is_stop_without_waiting_for_the_window(from_topic: bool) -> None:
    verdicts = simulate(then(keeping_up(1), 300, gone), from_topic=from_topic).run(900)["g"]
    assert 360 <= first(verdicts, "STOP") <= 390
    assert verdicts[-1].status == "STOP"
    assert "all its members are gone" in verdicts[-1].why


@from_both
def test_a_group_that_never_had_members_is_evaluated_by_its_moves_alone(from_topic: bool) -> None:
    leaves = then(keeping_up(60, members=False), 1200, gone)
    verdicts = simulate(leaves, from_topic=from_topic).run(HOUR)["g"]
    assert 1140 + 540 <= first(verdicts, "STOP") <= 1140 + 600, "silent for longer than its ten commits span"
    assert "silent" in verdicts[-1].why


@from_both
def test_a_rewind_is_reported_until_it_caught_up(from_topic: bool) -> None:
    def rewinding(second: int, log: Log, group: SimulatedGroup) -> None:
        if second == 600:
            group.commit(0)
        elif second > 600:
            group.commit(min((group.committed or 0) + 400, int(log.end)))
        else:
            group.commit(int(log.end))

    simulation = simulate(rewinding, from_topic=from_topic)
    verdicts = simulation.run(900)["g"]
    assert 600 <= first(verdicts, "REWIND") <= 610
    assert said(verdicts, after=640) == {"OK"}
    (rewind,) = simulation.events("rewind")
    assert "the log start" in rewind["why"]
    changes = [(row["before"], row["after"]) for row in simulation.events("status")]
    assert changes == [("OK", "REWIND"), ("REWIND", "OK")]


@from_both
def test_every_rewind_counts_not_only_the_first(from_topic: bool) -> None:
    """Burrow evaluates only the first drop in the window: once caught up, it hides a second, deeper one."""

    def twice(second: int, log: Log, group: SimulatedGroup) -> None:
        offset = int(log.end) if second < 300 else {300: 5000, 320: int(log.end), 340: 100}.get(second)
        if offset is not None and second % 10 == 0:
            group.commit(offset)

    verdicts = simulate(twice, from_topic=from_topic).run(360)["g"]
    assert verdicts[-1].status == "REWIND"
    assert "to 100" in verdicts[-1].why


@from_both
def test_retention_that_passes_a_consumer_is_an_error_and_counted(from_topic: bool) -> None:
    def overtaken(second: int, log: Log, group: SimulatedGroup) -> None:
        group.commit(second * 5)
        log.start = max(0, int(log.end) - 6000)

    simulation = simulate(overtaken, from_topic=from_topic)
    verdicts = simulation.run(900)["g"]
    began = next(second for second in range(1, 900) if second * 5 < second * 20 - 6000)
    assert began <= first(verdicts, "ERR") <= began + 20
    assert "deleted unread" in verdicts[-1].why
    (lag,) = simulation.rows("consumer_lag")
    consumer = simulation.consumers["g"]
    assert lag["lost_messages"] == consumer.log.start - (consumer.group.committed or 0)
    assert len(simulation.events("messages_lost")) == 1


@from_both
def test_a_group_without_members_that_lost_messages_long_ago_is_stop(from_topic: bool) -> None:
    def left_behind(second: int, log: Log, group: SimulatedGroup) -> None:
        (keeping_up(1) if second < 300 else gone)(second, log, group)
        log.start = max(0, int(log.end) - 12_000)

    verdicts = simulate(left_behind, from_topic=from_topic).run(HOUR)["g"]
    assert first(verdicts, "STOP") < first(verdicts, "ERR") < 10**9
    assert verdicts[-1].status == "STOP"
    assert "deleted unread" in verdicts[-1].why


def test_a_topic_without_an_assigned_member_is_shown_but_not_evaluated() -> None:
    def moved_on(second: int, log: Log, group: SimulatedGroup) -> None:
        if second < 300:
            group.commit(int(log.end))
        else:
            group.assigned = "another"

    simulation = simulate(moved_on)
    assert said(simulation.run(1200)["g"]) == {"OK"}
    (lag,) = simulation.rows("consumer_lag")
    (group,) = simulation.rows("consumer_group")
    assert (lag["abandoned"], group["abandoned_partitions"]) == (True, 1)
    assert lag["lag"] > 10_000


@from_both
def test_a_group_that_died_before_the_agent_started_is_found_within_minutes(from_topic: bool) -> None:
    def dead(_: int, __: Log, group: SimulatedGroup) -> None:
        group.committed, group.members = 0, False

    verdicts = simulate(dead, 5.0, from_topic=from_topic).run(900)["g"]
    assert 300 <= first(verdicts, "STOP") <= 330


@from_both
def test_a_commit_without_members_that_never_moved_is_no_stop(from_topic: bool) -> None:
    def once(_: int, __: Log, group: SimulatedGroup) -> None:
        group.committed, group.members, group.had_members = 0, False, False

    verdicts = simulate(once, 5.0, from_topic=from_topic).run(1800)["g"]
    assert said(verdicts, before=900) == {"OK"}
    assert said(verdicts, after=920) == {"WARN"}, "too little is known for STOP, but it is reported"


@from_both
def test_a_commit_in_the_poll_that_first_shows_a_recreated_topic_is_no_rewind(from_topic: bool) -> None:
    def created_again(second: int, log: Log, group: SimulatedGroup) -> None:
        if second == 600:
            log.end, log.topic_id = 5.0, "second"
        group.commit(int(log.end))

    simulation = simulate(created_again, 20.0, from_topic=from_topic)
    assert said(simulation.run(800)["g"]) == {"OK"}
    events = [row["kind"] for batches in simulation.batches for row in rows_of(batches, "event")]
    assert "topic_recreated" in events
    assert ("rewind" in events) == from_topic, "the offsets topic shows the commit before a poll shows the new topic"


@from_both
def test_a_recreated_topic_starts_over_and_a_deleted_group_is_dropped(from_topic: bool) -> None:
    def created_again(second: int, log: Log, group: SimulatedGroup) -> None:
        if second == 600:
            log.end, log.topic_id = 0.0, "second"
        if second < 600 or second > 620:
            group.commit(int(log.end))
        elif second == 610:
            group.committed = None

    def deleted(second: int, log: Log, group: SimulatedGroup) -> None:
        (keeping_up(1) if second < 300 else gone)(second, log, group)
        group.exists = second < 330

    pair = Simulation({"again": (created_again, 20.0), "deleted": (deleted, 20.0)}, from_topic=from_topic)
    verdicts = pair.run(1200)
    assert said(verdicts["again"]) == {"OK"}
    assert said(verdicts["deleted"]) == {"OK"}
    assert verdicts["deleted"][-1].second <= 350
    assert pair.state.pipeline.evaluator.store.groups.names() == {"again"}


def test_a_group_that_cannot_be_queried_keeps_its_verdict_marked_stale() -> None:
    simulation = simulate(keeping_up(1))
    simulation.run(300)
    for _ in range(60):
        simulation.clock.advance(10)
        batches = simulation.see("kafka", unreachable())
    (group,) = rows_of(batches, "consumer_group")
    (lag,) = rows_of(batches, "consumer_lag")
    assert (group["status_text"], group["stale"], lag["status"], lag["stale"]) == ("OK", True, 1, True)
    assert said(simulation.run(60)["g"]) == {"OK"}


@from_both
def test_a_rhythm_is_learnt_from_polls_that_are_minutes_apart(from_topic: bool) -> None:
    def a_little_later_each_time(second: int, log: Log, group: SimulatedGroup) -> None:
        """Two seconds behind, and after an hour a third of a second more."""
        if second % 60 == 0:
            group.commit(max(int(log.end) - 40 - second // 600, 0))

    simulation = Simulation({"g": (a_little_later_each_time, 20.0)}, from_topic=from_topic, poll_seconds=120)
    assert said(simulation.run(3 * HOUR)["g"]) == {"OK"}


@pytest.mark.parametrize(
    ("state", "shared_out", "before"),
    [("PreparingRebalance", "", "a:0"), ("Reconciling", "a:0", "a:0 b:0")],
    ids=["abandoned before", "read before"],
)
def test_a_rebalance_neither_abandons_a_topic_nor_takes_it_up_again(state: str, shared_out: str, before: str) -> None:
    simulation, statuses = simulate(keeping_up()), []
    for number in range(80):
        simulation.clock.advance(10)
        rebalances, end = number == 70, 200 * number
        simulation.see(
            "kafka",
            poll(
                {("a", 0): end, ("b", 0): end},
                {("g", "a", 0): end, ("g", "b", 0): min(end, 4000)},
                states={"g": state if rebalances else "Stable"},
                protocol_types={"g": "consumer"},
                members={"g": [("m", shared_out if rebalances else "a:0 b:0" if number < 20 else before)]},
                at_ms=simulation.clock.wall_ms(),
            ),
        )
        statuses.append(simulation.rows("consumer_group")[0]["status_text"])
    assert statuses[70] == statuses[69] == statuses[71]


def test_in_a_rebalance_a_topic_stays_abandoned_whatever_rule_decided_before() -> None:
    simulation = simulate(keeping_up())
    evaluator, abandoned = simulation.state.pipeline.evaluator, []
    for number in range(40):
        simulation.clock.advance(10)
        if number == 39:
            evaluator.store.note("rule")[:] = VerdictRule.NOTHING_COMMITTED
        simulation.see(
            "kafka",
            poll(
                {("a", 0): 200 * number, ("b", 0): 200 * number},
                {("g", "a", 0): 200 * number, ("g", "b", 0): 1000},
                states={"g": "Stable" if number < 39 else "PreparingRebalance"},
                protocol_types={"g": "consumer"},
                members={"g": [("m", "a:0" if number < 39 else "")]},
                at_ms=simulation.clock.wall_ms(),
            ),
        )
        assert evaluator.rows is not None
        abandoned.append(sorted(evaluator.rows.facts.abandoned.tolist()))
    assert abandoned[38:] == [[False, True]] * 2


@from_both
def test_a_group_with_a_live_member_and_rare_commits_is_never_stop(from_topic: bool) -> None:
    verdicts = simulate(keeping_up(600), from_topic=from_topic).run(2 * HOUR)["g"]
    assert "STOP" not in said(verdicts), "it has an owner: at most it is stalled, until its rhythm is known"
    assert said(verdicts, after=1800) == {"OK"}


def test_overrides_put_groups_of_one_cluster_under_either_mode() -> None:
    """Burrow's rules call a consumer at half speed OK; lagwatch's WARN."""
    burrow = Override(re.compile("legacy"), PolicySettings(mode=Mode.BURROW))
    slow: dict[str, tuple[Behaviour, Rate]] = {"legacy": (reading(10), 20.0), "modern": (reading(10), 20.0)}
    verdicts = Simulation(slow, from_topic=True, policies=Policies(PolicySettings(), [burrow])).run(600)
    assert said(verdicts["legacy"], after=300) == {"OK"}
    assert said(verdicts["modern"], after=300) == {"WARN"}


@from_both
@pytest.mark.parametrize("step_seconds", [-3600, -120, 3600])
def test_a_clock_step_hides_no_stall_and_causes_none(from_topic: bool, step_seconds: int) -> None:
    """Of agent and brokers alike: commits in the offsets topic carry the brokers' time."""
    pair: dict[str, tuple[Behaviour, Rate]] = {
        "stalls": (then(keeping_up(5), 600, standing_still(5)), 20.0),
        "fine": (keeping_up(5), 20.0),
    }
    simulation = Simulation(pair, from_topic=from_topic)
    simulation.run(300)
    simulation.clock.step_wall(step_seconds)
    verdicts = simulation.run(600)
    assert said(verdicts["fine"]) == {"OK"}
    assert 660 <= first(verdicts["stalls"], "STALL") <= 740
    assert said(verdicts["stalls"], before=660) == {"OK"}
