"""One cluster over several polls: lag, stale rows and their age, and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagwatch.batch import Batch, Column, make_batch
from lagwatch.broker_queries import TimestampAnswers
from lagwatch.catalogue import EVENT, TOPIC
from lagwatch.clock import Moment, SettableClock
from lagwatch.journal import Journal, JournalReader
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.pipeline.replay import restore_states
from lagwatch.pipeline.state.partitions import _DELETED_TOPICS_KEPT
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import CONFIGS
from tests.harness.polls import lag_by_key, poll, rows_of, unreachable


class Follower:
    """A pipeline on a clock that tests move."""

    def __init__(self) -> None:
        self.clock = SettableClock()
        self.pipeline = Pipeline("east")

    def see(self, collected: Collected, after: float = 10.0) -> list[Batch]:
        self.clock.advance(after)
        return self.pipeline.observe("kafka", collected, 0.1, Moment.now(self.clock))


@pytest.fixture
def follower() -> Follower:
    return Follower()


KEY = ("g", "t", 0)


def test_lag_is_the_distance_to_the_end(follower: Follower) -> None:
    batches = follower.see(poll({("t", 0): 100, ("t", 1): 7}, {KEY: 60, ("g", "t", 1): 7}))

    rows = lag_by_key(batches)
    assert (rows[KEY]["lag"], rows["g", "t", 1]["lag"]) == (40, 0)
    (group,) = rows_of(batches, "consumer_group")
    assert (group["total_lag"], group["max_lag"], group["partitions"]) == (40, 40, 2)
    assert group["unknown_lag_partitions"] == 0


def test_a_commit_beyond_the_end_is_no_lag_and_never_a_negative_one(follower: Follower) -> None:
    assert lag_by_key(follower.see(poll({("t", 0): 100}, {KEY: 130})))[KEY]["lag"] == 0


def test_offsets_past_two_to_the_53_keep_every_digit(follower: Follower) -> None:
    big = 2**53 + 1
    batches = follower.see(poll({("t", 0): big + 2, ("t", 1): None}, {KEY: big}))
    assert lag_by_key(batches)[KEY]["committed_offset"] == big
    assert lag_by_key(batches)[KEY]["lag"] == 2


def test_time_since_an_offset_moved_grows_until_it_moves(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100}, {KEY: 60}))
    still = lag_by_key(follower.see(poll({("t", 0): 110}, {KEY: 60}), after=30))
    moved = lag_by_key(follower.see(poll({("t", 0): 110}, {KEY: 61}), after=10))

    assert still[KEY]["seconds_since_moved"] == 30
    assert moved[KEY]["seconds_since_moved"] == 0


def test_an_end_without_a_response_is_the_last_known_one_marked_stale(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100, ("t", 1): 5}, {KEY: 60, ("g", "t", 1): 5}))
    batches = follower.see(poll({("t", 0): None, ("t", 1): 6}, {KEY: 70, ("g", "t", 1): 5}), after=12)

    rows = lag_by_key(batches)
    assert (rows[KEY]["stale"], rows[KEY]["lag"], rows[KEY]["age_seconds"]) == (True, 30, 12)
    assert (rows["g", "t", 1]["stale"], rows["g", "t", 1]["lag"]) == (False, 1)
    partition = rows_of(batches, "topic_partition")[0]
    assert (partition["log_end_offset"], partition["stale"], partition["age_seconds"]) == (100, True, 12)
    (group,) = rows_of(batches, "consumer_group")
    assert (group["stale"], group["stale_partitions"], group["total_lag"]) == (False, 1, 31)


def test_an_end_that_was_never_known_makes_lag_unknown_and_never_zero(follower: Follower) -> None:
    batches = follower.see(poll({("t", 0): None}, {KEY: 60}))
    row = lag_by_key(batches)[KEY]
    assert (row["lag"], row["stale"]) == (None, True)
    (group,) = rows_of(batches, "consumer_group")
    assert (group["total_lag"], group["unknown_lag_partitions"]) == (0, 1)


def test_a_group_without_new_commits_keeps_its_last_ones_marked_stale(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100}, {KEY: 60, ("h", "t", 0): 90}))
    batches = follower.see(poll({("t", 0): 120}, {("h", "t", 0): 110}, not_asked=["g"]), after=10)

    rows = lag_by_key(batches)
    assert (rows[KEY]["committed_offset"], rows[KEY]["stale"], rows[KEY]["age_seconds"]) == (60, True, 10)
    assert not rows["h", "t", 0]["stale"]
    states = {row["group"]: row["stale"] for row in rows_of(batches, "consumer_group")}
    assert states == {"g": True, "h": False}


def test_a_group_missing_from_incomplete_listings_stays_stale(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100}, {KEY: 60}))
    for _ in range(5):
        batches = follower.see(poll({("t", 0): 100}, {}, complete=False))
    assert lag_by_key(batches)[KEY]["age_seconds"] == 50


def test_a_group_missing_from_two_complete_listings_is_gone(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100}, {KEY: 60}))
    first = follower.see(poll({("t", 0): 100}, {}))
    second = follower.see(poll({("t", 0): 100}, {}))

    assert lag_by_key(first)[KEY]["stale"]
    assert lag_by_key(second) == {}
    assert [(e["kind"], e["subject"]) for e in rows_of(second, "event")] == [("group_gone", "g")]


def test_when_no_broker_responds_everything_is_stale_and_nothing_is_gone(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100}, {KEY: 60}))
    follower.see(unreachable())
    batches = follower.see(unreachable("connection refused"))

    assert lag_by_key(batches)[KEY]["age_seconds"] == 20
    assert rows_of(batches, "topic_partition")[0]["stale"]
    (source,) = rows_of(batches, "source")
    assert (source["up"], source["error"], source["last_success_age_seconds"]) == (False, "connection refused", 20)


def test_a_partition_without_commit_any_more_is_dropped(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100, ("t", 1): 100}, {KEY: 60, ("g", "t", 1): 1}))
    assert list(lag_by_key(follower.see(poll({("t", 0): 100, ("t", 1): 100}, {KEY: 60})))) == [KEY]


def test_a_topic_created_again_starts_a_new_history_and_is_an_event(follower: Follower) -> None:
    follower.see(poll({("t", 0): 1000}, {KEY: 60}, topic_ids={"t": "old"}))
    batches = follower.see(poll({("t", 0): None}, {KEY: 60}, topic_ids={"t": "new"}), after=30)

    row = lag_by_key(batches)[KEY]
    assert (row["lag"], row["seconds_since_moved"]) == (None, 0)
    (event,) = rows_of(batches, "event")
    assert (event["kind"], event["subject"], event["before"], event["after"]) == ("topic_recreated", "t", "old", "new")


def test_a_topic_that_was_away_for_some_polls_is_recognised_as_created_again(follower: Follower) -> None:
    follower.see(poll({("t", 0): 1000}, {KEY: 60}, topic_ids={"t": "old"}))
    for _ in range(3):
        follower.see(poll({("u", 0): 1}, {}, groups=["g"]))
    batches = follower.see(poll({("t", 0): 5, ("u", 0): 1}, {KEY: 2}, topic_ids={"t": "new"}))
    assert [event["kind"] for event in rows_of(batches, "event")] == ["topic_recreated"]


def test_commits_of_a_stale_group_on_a_deleted_topic_do_not_stay(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100, ("u", 0): 5}, {KEY: 60, ("g", "u", 0): 5}))
    batches = follower.see(poll({("u", 0): 5}, {}, not_asked=["g"]))
    assert list(lag_by_key(batches)) == [("g", "u", 0)]
    assert [(event["kind"], event["subject"]) for event in rows_of(batches, "event")] == [("topic_gone", "t")]


def test_names_that_come_and_go_never_take_over_each_others_offsets(follower: Follower) -> None:
    for number in range(50):
        key = (f"g{number}", f"t{number % 7}", 0)
        batches = follower.see(poll({(f"t{number % 7}", 0): 100}, {key: number}))
        row = lag_by_key(batches)[key]
        assert (row["committed_offset"], row["seconds_since_moved"], row["stale"]) == (number, 0, False)
        assert all(group in (f"g{number}", f"g{number - 1}") for group, _, _ in lag_by_key(batches))


MEMBERS = {"g": [("m1", "t:0")]}


@pytest.mark.parametrize(
    ("before", "after", "count", "reason"),
    [
        ({}, {}, 0, "nothing changed"),
        ({}, {"members": {"g": [("m1", "t:0"), ("m2", "t:1")]}}, 1, "a member joined between two polls"),
        ({}, {"members": {"g": [("m1", "t:0-1")]}}, 1, "the same member got other partitions"),
        ({}, {"states": {"g": "PreparingRebalance"}}, 1, "it rebalances now"),
        (
            {"states": {"g": "PreparingRebalance"}},
            {"members": {"g": [("m2", "t:0")]}},
            0,
            "the end of one that was counted when it began",
        ),
        ({"states": {"g": "PreparingRebalance"}}, {"states": {"g": "CompletingRebalance"}}, 0, "still the same one"),
    ],
)
def test_rebalances_are_a_lower_bound(
    follower: Follower, before: dict[str, object], after: dict[str, object], count: int, reason: str
) -> None:
    def see(change: dict[str, object]) -> list[Batch]:
        options = {"members": MEMBERS, **change}
        return follower.see(poll({("t", 0): 1}, {KEY: 1}, **options))  # type: ignore[arg-type]

    see(before)
    batches = see(after)

    assert rows_of(batches, "consumer_group")[0]["rebalances"] == count, reason
    assert len([e for e in rows_of(batches, "event") if e["kind"] == "rebalance"]) == count


def test_members_are_recorded_when_they_change(follower: Follower) -> None:
    seen = [
        len(rows_of(follower.see(poll({("t", 0): 1}, {KEY: 1}, members=members)), "group_member"))
        for members in (MEMBERS, MEMBERS, {"g": [("m1", "t:0"), ("m2", "")]})
    ]
    assert seen == [1, 0, 2]


def test_unchanged_members_are_recorded_again_before_retention_deletes_them(follower: Follower) -> None:
    follower.see(poll({("t", 0): 1}, {KEY: 1}, members=MEMBERS))
    assert rows_of(follower.see(poll({("t", 0): 1}, {KEY: 1}, members=MEMBERS), after=301), "group_member")


def test_a_restart_goes_on_where_it_stopped(follower: Follower) -> None:
    journal = [
        follower.see(poll({("t", 0): 100}, {KEY: 60, ("h", "t", 0): 1}, at_ms=follower.clock.wall_ms() + 10_000)),
        follower.see(
            poll({("t", 0): None}, {KEY: 60}, not_asked=["h"], at_ms=follower.clock.wall_ms() + 10_000), after=10
        ),
    ]
    restarted = Follower()
    restarted.clock = follower.clock
    restarted.clock.advance(5)
    state = ClusterState(restarted.pipeline)
    for batches in journal:
        state.replay(batches, Moment.now(restarted.clock))
    state.finish_replay(Moment.now(restarted.clock))

    answers = poll({("t", 0): None}, {KEY: 60}, not_asked=["h"])
    expected = lag_by_key(follower.pipeline.observe("kafka", answers, 0.1, Moment.now(follower.clock)))
    actual = lag_by_key(restarted.pipeline.observe("kafka", answers, 0.1, Moment.now(restarted.clock)))
    assert actual == expected
    assert actual["h", "t", 0]["age_seconds"] == 15
    assert actual[KEY]["seconds_since_moved"] == 15


def test_a_wall_clock_set_back_makes_no_offset_younger_or_older(follower: Follower) -> None:
    follower.see(poll({("t", 0): 100}, {KEY: 60}))
    follower.clock.step_wall(-3600)
    rows = lag_by_key(follower.see(poll({("t", 0): 100}, {KEY: 60})))
    assert rows[KEY]["seconds_since_moved"] == 10


def test_a_cluster_without_topics_or_groups_is_polled_without_errors(follower: Follower) -> None:
    follower.see(poll({}, {}))
    batches = follower.see(poll({}, {}))
    assert lag_by_key(batches) == {}
    assert lag_by_key(follower.see(unreachable())) == {}


def test_before_the_first_poll_there_are_no_ends() -> None:
    ends = Pipeline("east").partitions.ends()
    assert (len(ends.keys), len(ends.start.values), len(ends.end.values), len(ends.at)) == (0, 0, 0, 0)


def test_a_log_end_that_went_back_is_an_event_that_names_the_partition(follower: Follower) -> None:
    follower.see(poll({("t", 3): 100}, {("g", "t", 3): 60}))
    events = rows_of(follower.see(poll({("t", 3): 40}, {("g", "t", 3): 60})), "event")
    assert [(e["kind"], e["subject"]) for e in events if e["kind"] == "truncated"] == [("truncated", "t/3")]


def test_ids_of_deleted_topics_are_not_kept_for_ever(follower: Follower) -> None:
    state, kept = follower.pipeline.partitions, _DELETED_TOPICS_KEPT
    many = [f"t{number}" for number in range(kept + 5)]
    topics = make_batch(TOPIC, "east", 0, {"topic": many, "topic_id": [f"id-{name}" for name in many]})
    assert state.recreated(topics) == []
    one = make_batch(TOPIC, "east", 0, {"topic": ["new", "hidden"], "topic_id": ["id-new", None]})
    assert state.recreated(one) == []
    again = make_batch(TOPIC, "east", 0, {"topic": ["t0", many[-1]], "topic_id": ["other", "other"]})
    assert [found.topic for found in state.recreated(again)] == [many[-1]], "the oldest is forgotten"


def test_batches_of_the_agent_itself_are_not_replayed(follower: Follower) -> None:
    event = make_batch(EVENT, "east", 0, {"kind": ["clock_step"], "subject": ["agent"], "why": ["by 1h"]})
    state = ClusterState(follower.pipeline)
    state.replay([event], Moment.now(follower.clock))
    state.finish_replay(Moment.now(follower.clock))
    assert follower.pipeline.sources.names == set()
    assert follower.pipeline.partitions.rows is None


def test_a_poll_without_any_topic_row_before_it_restores_nothing(follower: Follower) -> None:
    """The journal may begin between two rows of `topic`, which are written when they change and every five minutes."""
    batches = follower.see(poll({("t", 0): 100}, {KEY: 60}))
    restarted = Follower()
    state = ClusterState(restarted.pipeline)
    state.replay([batch for batch in batches if batch.table != "topic"], Moment.now(follower.clock))
    assert restarted.pipeline.partitions.rows is None


def test_offsets_by_timestamp_bound_the_time_lag_also_in_compacted_topics(follower: Follower) -> None:
    configured = make_batch(
        TOPIC, "east", 0, {"topic": ["t", "hidden"], "cleanup_policy": ["compact", None], "retention_ms": [-1, None]}
    )
    follower.pipeline.observe("kafka_configs", Collected([configured], []), 0.1, Moment.now(follower.clock))
    assert follower.pipeline.evaluator.limits.is_compacted("t")
    follower.see(poll({("t", 0): 1000}, {KEY: 500}))
    unknown = lag_by_key(follower.see(poll({("t", 0): 1000}, {KEY: 500})))[KEY]
    key, written = follower.pipeline.partitions.keys, follower.clock.wall_ms() - 3_600_000
    answers = TimestampAnswers(key, *(np.array([number]) for number in (written, 1000, 500, written)))

    follower.pipeline.observe(
        "kafka_timestamps", Collected([], [], timestamp_answers=answers), 0.1, Moment.now(follower.clock)
    )

    known = lag_by_key(follower.see(poll({("t", 0): 1000}, {KEY: 500})))[KEY]
    assert unknown["lag_seconds_high"] is None
    assert known["lag_seconds_high"] == pytest.approx(3600, abs=30)


def test_topics_a_run_could_not_fetch_keep_their_configuration_also_after_a_restart(follower: Follower) -> None:
    def configs(topics: Sequence[str], *failed: str) -> list[dict[str, Any]]:
        policies, min_isr = ["compact"] * len(topics), [2] * len(topics)
        columns: dict[str, Column] = {"topic": topics, "cleanup_policy": policies, "min_isr": min_isr}
        failures = [Failure(CONFIGS, "topics", f"configs of {topic}: no answer") for topic in failed]
        run = Collected([make_batch(TOPIC, "east", follower.clock.wall_ms(), columns)], failures)
        batches = follower.pipeline.observe(CONFIGS, run, 0.1, Moment.now(follower.clock))
        written.append(batches)
        return rows_of(batches, "topic")

    written: list[list[Batch]] = []
    assert [row["topic"] for row in configs(["t", "u", "gone"])] == ["t", "u", "gone"]
    assert {row["topic"]: row["min_isr"] for row in configs(["u"], "t")} == {"u": 2, "t": 2, "gone": 2}
    restarted = ClusterState(Pipeline("east"))
    for batches in written:
        restarted.replay(batches, Moment.now(follower.clock))
    restarted.finish_replay(Moment.now(follower.clock))
    for pipeline in (follower.pipeline, restarted.pipeline):
        assert pipeline.evaluator.limits.is_compacted("t")
        assert pipeline.configs.complete(written[0][0], partial=True).rows.num_rows == 3
    assert [row["topic"] for row in configs(["t", "u"])] == ["t", "u"], "what a complete run lacks is deleted"
    assert not follower.pipeline.evaluator.limits.is_compacted("gone")


def test_a_recreated_topic_does_not_keep_its_configuration(follower: Follower) -> None:
    follower.see(poll({("t", 0): 10, ("u", 0): 10}, {}))
    columns: dict[str, Column] = {"topic": ["t", "u"], "min_isr": [2, 2]}
    run = Collected([make_batch(TOPIC, "east", 0, columns)], [])
    follower.pipeline.observe(CONFIGS, run, 0.1, Moment.now(follower.clock))
    follower.see(poll({("t", 0): 10, ("u", 0): 10}, {}, topic_ids={"t": "another"}))
    empty = Collected([make_batch(TOPIC, "east", 0, {"topic": []})], [Failure(CONFIGS, "topics", "no answer")])
    batches = follower.pipeline.observe(CONFIGS, empty, 0.1, Moment.now(follower.clock))
    assert [row["topic"] for row in rows_of(batches, "topic")] == ["u"]


def test_a_rewind_of_several_partitions_is_one_event_about_the_longest(follower: Follower) -> None:
    ends: dict[tuple[str, int], int | None] = {("t", 0): 900, ("t", 1): 900, ("t", 2): 900}
    follower.see(poll(ends, {("g", "t", 0): 500, ("g", "t", 1): 800, ("g", "t", 2): 900}))
    batches = follower.see(poll(ends, {("g", "t", 0): 400, ("g", "t", 1): 0, ("g", "t", 2): 900}))
    [rewind] = [event for event in rows_of(batches, "event") if event["kind"] == "rewind"]
    assert (rewind["subject"], rewind["before"], rewind["after"]) == ("g", "800", "0")
    assert rewind["why"] == (
        "group g went back on 2 partitions, most on t/1: 800 messages back, from offset 800 to 0, the log start"
    )


def test_a_restart_replays_the_runs_of_each_cluster_alone(tmp_path: Path) -> None:
    clock = SettableClock()
    pipelines = {name: Pipeline(name) for name in ("east", "west")}
    with Journal(tmp_path / "journal.db", clock=clock) as journal:
        for end, (name, pipeline) in enumerate(pipelines.items(), 100):
            clock.advance(10)
            found = poll({("t", 0): end}, {KEY: 60}, at_ms=clock.wall_ms())
            of_cluster = [replace(batch, cluster=name) for batch in found.batches]
            journal.append(pipeline.observe("kafka", replace(found, batches=of_cluster), 0.1, Moment.now(clock)))

    states = {name: ClusterState(Pipeline(name)) for name in pipelines}
    restore_states(JournalReader(tmp_path / "journal.db", clock), states, Moment.now(clock))

    ends = {name: state.pipeline.partitions.ends().end.values.tolist() for name, state in states.items()}
    assert ends == {"east": [100], "west": [101]}
