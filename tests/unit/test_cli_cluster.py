"""`lagwatch cluster`: problems and the suspected broker, from batches with known values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lagwatch.cli.cluster_command import health_lines
from lagwatch.snapshot.documents import health_document
from lagwatch.snapshot.health import Health
from lagwatch.source_names import LOGDIRS
from tests.harness.cluster_views import batch, failure, seen

FINE = {"brokers": 2, "topics": 1, "partitions": 2, "groups": 3, "under_replicated_partitions": 0,
        "offline_partitions": 0, "not_preferred_leader_partitions": 0}  # fmt: skip
QUORUM = {"active_controllers": 1, "controller": 1, "quorum_epoch": 7, "quorum_voters": 3, "quorum_max_lag": 0}


def broker(number: int, **more: Any) -> dict[str, Any]:
    return {"broker": number, "host": f"kafka{number}:9092", "registered": True, "missing_from_isr": 0, **more}


def test_a_healthy_cluster_has_no_problems() -> None:
    health = Health(seen(batch("cluster", [FINE]), batch("cluster", [QUORUM]), batch("broker", [broker(1), broker(2)])))
    text = "\n".join(health_lines(health, 20, None))
    assert health.problems() == []
    assert text.startswith("cluster east: 2 brokers, 1 topic, 2 partitions, 3 groups\n")
    assert "controller: node 1, epoch 7, 3 voters, the slowest 0 records behind" in text
    assert "all partitions have all their replicas in sync" in text


def test_sources_write_parts_of_one_row_and_known_values_win() -> None:
    sizes = batch("broker", [{"broker": 1, "size_bytes": 2048, "disk_free_bytes": 3 * 2**30}])
    quorum = batch("broker", [{"broker": 1, "controller": True}, {"broker": 101, "controller": False}])
    text = health_lines(Health(seen(batch("broker", [broker(1, rack="a", leaders=4)]), sizes, quorum)), 20, None)
    assert text[3].split() == ["1", "kafka1:9092", "a", "up", "4", "-", "0", "2.0", "KiB", "3.0", "GiB", "leader"]
    assert text[4].split() == ["101", "-", "-", "controller", "-", "-", "-", "-", "-", "voter"]


def test_the_suspect_is_named_with_the_evidence() -> None:
    totals = {**FINE, "under_replicated_partitions": 41, "suspect_broker": 2}
    brokers = [broker(1), {"broker": 2, "registered": False, "missing_from_isr": 41}]
    health = Health(seen(batch("cluster", [{**totals, "brokers": 1}]), batch("broker", brokers)))
    assert health.suspect_line() == "suspect: broker 2 is missing from 41 of 41 under-replicated partitions"
    assert health.problems() == ["41 partitions under-replicated"]
    assert health.headline().startswith("cluster east: 1 of 2 brokers, ")
    assert "not registered" in health_lines(health, 20, None)[4]


def test_two_missing_brokers_give_no_single_suspect() -> None:
    totals = {**FINE, "under_replicated_partitions": 40, "suspect_broker": None}
    brokers = [broker(1, missing_from_isr=20), broker(2, missing_from_isr=25), broker(3)]
    line = Health(seen(batch("cluster", [totals]), batch("broker", brokers))).suspect_line()
    assert line == "no single suspect for 40 under-replicated partitions; missing: broker 2 from 25, broker 1 from 20"


def test_no_controller_comes_first_and_replicas_are_not_reported_in_sync() -> None:
    health = Health(seen(batch("cluster", [FINE]), batch("cluster", [{"active_controllers": 0}])))
    text = health_lines(health, 20, None)
    assert any(line.startswith("NO CONTROLLER: ") for line in text)
    assert not any(line.startswith("all partitions") for line in text)
    assert health.problems()[0].startswith("NO CONTROLLER: ")


def test_bad_partitions_are_listed_worst_first_and_cut_at_top() -> None:
    rows = [
        {"topic": "t", "partition": n, "leader": 1, "replicas": 3, "in_sync_replicas": 2, "under_replicated": True}
        for n in range(5)
    ]
    rows[3] |= {"offline": True, "leader": None, "in_sync_replicas": 0}
    rows.append({"topic": "t", "partition": 9, "replicas": 3, "in_sync_replicas": 3, "under_replicated": False})
    sizes = batch("topic_partition", [{"topic": "t", "partition": n, "size_bytes": 1} for n in range(5)])
    topics = batch("topic", [{"topic": "t", "min_isr": 2}])
    health = Health(seen(batch("cluster", [FINE]), batch("topic_partition", rows), sizes, topics))
    text = health_lines(health, 2, None)
    assert [line.split() for line in text[-3:-1]] == [
        ["t", "3", "-", "3", "0", "2", "offline,", "under-replicated"],
        ["t", "0", "1", "3", "2", "2", "under-replicated"],
    ]
    assert text[-1] == "... and 3 more partitions"
    assert [row["partition"] for row in health_document(health)["bad_partitions"]] == [3, 0, 1, 2, 4]


def test_a_broker_without_response_is_one_problem() -> None:
    sources = batch("source", [failure("kafka", "broker 2", "connection refused")])
    others = batch("source", [failure("kafka_logdirs", "broker 2", "connection refused")])
    health = Health(seen(batch("cluster", [FINE]), batch("broker", [broker(1), broker(2)]), sources, others))
    assert health.problems() == ["could not query broker 2 (kafka, kafka_logdirs): connection refused"]
    assert [row["answers"] for row in health.brokers] == [None, False]


def test_without_any_response_no_broker_is_up() -> None:
    sources = batch("source", [failure("kafka", "", "no broker answered")])
    totals = batch("cluster", [FINE | {"controller": 2}])
    health = Health(seen(totals, batch("broker", [broker(1)]), sources, from_journal=True))
    text = health_lines(health, 20, None)
    assert "no answer" in text[3]
    assert any(line.startswith("last known controller: node 2") for line in text)
    assert "replicas: all in sync when the cluster was last polled" in text


def test_unknown_replicas_are_not_reported_in_sync() -> None:
    health = Health(seen(batch("broker", [broker(1)])))
    assert "replicas: unknown" in health_lines(health, 20, None)
    assert "controller: unknown" in health_lines(health, 20, None)


def test_balance_shows_multiples_of_the_mean_and_names_what_is_too_large() -> None:
    brokers = [
        broker(1, leaders=4, partitions=4001, leaders_ratio=1.5, partitions_ratio=1.2, preferred_leader_imbalance=0.25),
        broker(
            2,
            leaders=2,
            partitions=10,
            leaders_ratio=0.5,
            bytes_in_ratio=1.31,
            bytes_in_rate=2048.4,
            bytes_out_rate=0.0,
        ),
    ]
    large = [{"topic": "t", "partition": n, "size_bytes": n * 10**10} for n in range(12)]
    sizes = replace(batch("topic_partition", large), source=LOGDIRS)
    text = health_lines(Health(seen(batch("cluster", [FINE]), batch("broker", brokers), sizes)), 20, None)
    table = text[text.index("balance, as multiples of the brokers' mean:") :]
    assert table[2].split() == ["1", "1.50x", "1.20x", "-", "-", "-", "25%"]
    assert table[3].split() == ["2", "0.50x", "-", "-", "1.31x", "(2.0", "KiB)", "0", "B", "-"]
    assert table[4] == "broker 1 holds 4,001 partitions: above 4,000"
    assert table[5] == "partition 11 of t has 102.4 GiB: above 50 GB"
    assert table[10] == "... and 1 more partition"


def test_one_broker_has_no_balance() -> None:
    text = health_lines(
        Health(seen(batch("cluster", [FINE]), batch("broker", [broker(1, leaders_ratio=1.0)]))), 20, None
    )
    assert not any("balance" in line for line in text)


def test_a_difference_between_jmx_and_kafka_is_a_problem() -> None:
    words = "leaders of broker 1: Kafka reports 4, JMX 5; offline partitions: Kafka reports 0, JMX 2"
    health = Health(seen(batch("cluster", [FINE]), batch("cluster", [{"disagreements": 2, "disagreement": words}])))
    found = [f"JMX and Kafka disagree: {part}" for part in words.split("; ")]
    assert health.problems() == found
    assert set(found) <= set(health_lines(health, 20, None))


def test_a_controller_without_a_quorum_is_named_alone() -> None:
    """ZooKeeper clusters, and users who may not describe the quorum, have no epoch and no voters."""
    health = Health(seen(batch("cluster", [FINE]), batch("cluster", [{"active_controllers": 1, "controller": 2}])))
    assert health.controller_line() == "controller: node 2"


def test_partitions_off_their_preferred_leader_are_counted_but_no_problem() -> None:
    health = Health(seen(batch("cluster", [{**FINE, "not_preferred_leader_partitions": 9}])))
    assert health.preferred_line() == "9 partitions not led by the preferred replica"
    assert health.problems() == []


def test_an_incomplete_listing_shows_a_minimum_number_of_groups() -> None:
    health = Health(seen(batch("cluster", [FINE]), complete=False))
    assert health.headline().endswith("2 partitions, at least 3 groups")


def test_without_any_data_the_reason_is_shown() -> None:
    failed = batch("source", [failure("kafka", "", "no broker answered")])
    assert seen(failed).unreachable == "no broker answered"
    assert seen().unreachable == "nothing was queried"
