"""Balance of brokers, and differences between JMX and the Kafka API."""

from __future__ import annotations

from typing import Any

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, BUILT_IN
from lagwatch.clock import Moment
from lagwatch.pipeline.cross_check import CrossCheck
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected
from lagwatch.verdict.balance import with_ratios
from lagwatch.verdict.disagreement import DisagreementTracker
from tests.harness.polls import rows_of


def batch(table: str, **columns: list[Any]) -> Batch:
    return make_batch(BUILT_IN[table], "east", 0, columns)


def ratios(name: str, **columns: list[Any]) -> list[float | None]:
    values: list[float | None] = with_ratios(make_batch(BROKER, "east", 0, columns)).rows[name].to_pylist()
    return values


def test_a_ratio_is_to_the_mean_of_the_brokers() -> None:
    assert ratios("leaders_ratio", broker=[1, 2, 3], leaders=[10, 20, 60]) == pytest.approx([1 / 3, 2 / 3, 2], abs=1e-4)


def test_a_broker_that_is_gone_is_not_compared() -> None:
    found = ratios("partitions_ratio", broker=[1, 2, 3], registered=[True, True, False], partitions=[10, 30, 20])
    assert found == [0.5, 1.5, None]


def test_what_is_not_known_has_no_ratio_and_does_not_change_the_mean() -> None:
    found = ratios("size_ratio", broker=[1, 2, 101], size_bytes=[2**60, 2**60, None])
    assert found == [1.0, 1.0, None]


def test_where_nothing_flows_there_is_no_ratio() -> None:
    assert ratios("bytes_in_ratio", broker=[1, 2], bytes_in_rate=[0.0, 0.0]) == [None, None]


FACT = "offline partitions"


def differences(rounds: list[tuple[list[int], int]]) -> list[list[int]]:
    """The JMX values reported in each round of values of the Kafka API, then of JMX."""
    agreement = DisagreementTracker()
    found = []
    for kafka, jmx in rounds:
        for value in kafka:
            agreement.observe_kafka({FACT: value})
        found.append([found.jmx for found in agreement.observe_jmx({FACT: jmx})])
    return found


@pytest.mark.parametrize(
    ("rounds", "reported", "why"),
    [
        ([([0], 0)] * 5, [[]] * 5, "they agree"),
        ([([0], 3)] * 4, [[], [], [3], [3]], "reported from the third poll on"),
        ([([0], 3), ([0], 3), ([3], 3), ([0], 3), ([0], 3)], [[]] * 5, "one poll of agreement starts over"),
        (
            [([0, 1, 2], 1), ([2, 3, 4], 3), ([4, 5], 5)],
            [[], [], []],
            "a moving number: Kafka reported the same in between",
        ),
        ([([0], 3), ([], 3), ([], 3)], [[], [], [3]], "the last value of a Kafka that is polled rarely still counts"),
    ],
)
def test_only_a_difference_that_lasts_is_reported(rounds: Any, reported: list[list[int]], why: str) -> None:
    assert differences(rounds) == reported, why


def test_a_difference_stays_while_one_side_is_silent_but_not_for_ever() -> None:
    agreement = DisagreementTracker()
    found = []
    for jmx in ({FACT: 3}, {FACT: 3}, {FACT: 3}, {}, {}, {FACT: 3}, {}, {}, {}, {FACT: 3}):
        agreement.observe_kafka({FACT: 0})
        found.append([one.polls for one in agreement.observe_jmx(jmx)])
    assert found == [[], [], [3], [3], [3], [4], [4], [4], [], []]


def test_without_the_other_side_nothing_is_compared() -> None:
    agreement = DisagreementTracker()
    assert [agreement.observe_jmx({FACT: 1}) for _ in range(5)] == [[]] * 5


def kafka_side(health: CrossCheck, offline: int = 0) -> None:
    cluster = batch("cluster", under_replicated_partitions=[offline], offline_partitions=[offline])
    brokers = batch("broker", broker=[1], leaders=[4], partitions=[9])
    health.observe("kafka", [cluster, brokers], complete=True)


def jmx_side(health: CrossCheck, *, complete: bool = True, under: int = 0, leaders: int = 4) -> Any:
    cluster = batch("cluster", jmx_under_replicated_partitions=[under], jmx_offline_partitions=[0])
    brokers = batch("broker", broker=[1], jmx_leaders=[leaders], jmx_partitions=[9])
    batches, events = health.observe("jmx", [cluster, brokers], complete=complete)
    (row,) = rows_of(batches, "cluster")
    return row["disagreements"], row["disagreement"], events


def test_a_disagreement_is_an_event_when_it_begins_and_when_it_ends() -> None:
    health, seen = CrossCheck(), []
    for leaders in (5, 5, 5, 5, 4):
        kafka_side(health)
        seen.append(jmx_side(health, leaders=leaders))
    assert [(count, words) for count, words, _ in seen] == [
        (0, None),
        (0, None),
        (1, "leaders of broker 1: Kafka reports 4, JMX 5"),
        (1, "leaders of broker 1: Kafka reports 4, JMX 5"),
        (0, None),
    ]
    began, ended = [event for _, _, events in seen for event in events]
    assert (began.kind, began.subject) == ("disagreement", "leaders of broker 1")
    assert (began.before, began.after) == ("Kafka: 4", "JMX: 5")
    assert ended.why == "leaders of broker 1: Kafka and JMX no longer differ"


def test_a_node_that_is_silent_for_a_poll_ends_no_disagreement() -> None:
    health, events = CrossCheck(), []
    for silent in (False, False, False, True, False, True, True, True):
        kafka_side(health)
        if silent:
            events += health.observe("jmx", [batch("cluster", jmx_offline_partitions=[0])], complete=False)[1]
        else:
            events += jmx_side(health, leaders=5)[2]
    began, ended = events
    assert (began.before, began.after) == ("Kafka: 4", "JMX: 5")
    assert ended.why == "leaders of broker 1: Kafka and JMX can no longer be compared"


def test_sums_are_not_compared_while_a_node_did_not_answer() -> None:
    health = CrossCheck()
    for _ in range(5):
        kafka_side(health)
        count, _, _ = jmx_side(health, complete=False, under=7)
    assert count == 0


def test_sums_are_not_compared_while_partitions_have_no_leader_to_count_them() -> None:
    health = CrossCheck()
    kafka_side(health)
    for _ in range(5):
        kafka_side(health, offline=2)
        _, words, _ = jmx_side(health)
    assert words == "offline partitions: Kafka reports 2, JMX 0"


def test_the_pipeline_records_ratios_and_disagreements() -> None:
    pipeline, now = Pipeline("east"), Moment(0, 0.0)
    for _ in range(3):
        api = Collected([batch("cluster", active_controllers=[1])], [])
        pipeline.observe("kafka_quorum", api, 0.1, now)
        jmx = [batch("cluster", jmx_active_controllers=[2]), batch("broker", broker=[1, 2], bytes_in_rate=[1.0, 3.0])]
        out = pipeline.observe("jmx", Collected(jmx, []), 0.1, now)
    assert [row["bytes_in_ratio"] for row in rows_of(out, "broker")] == [0.5, 1.5]
    (event,) = rows_of(out, "event")
    assert event["why"] == "active controllers: Kafka reports 1, JMX 2, for 3 polls"
