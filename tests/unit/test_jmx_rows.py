"""Rows of the JMX job: one per broker, and one for the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.jmx_beans.rows import cluster_row, jmx_batches
from collectors.jmx_beans.values import Key, Row
from lagwatch.catalogue import BUILT_IN, UserField, with_user_fields

NODE: Key = ("broker", ())


def rows_of(nodes: dict[int, dict[Key, Row]], table: str, **options: Any) -> list[dict[str, Any]]:
    tables = options.get("tables", BUILT_IN)
    found = [batch for batch in jmx_batches("east", 5, nodes, tables, complete=True) if batch.table == table]
    return [
        {name: value for name, value in row.items() if value is not None}
        for batch in found
        for row in batch.rows.to_pylist()
    ]


def test_whole_numbers_of_kafka_metrics_beans_are_whole_again() -> None:
    (row,) = rows_of({1: {NODE: {"raft_epoch": 45.0, "raft_state": "leader"}}}, "broker")
    assert row == {"broker": 1, "raft_epoch": 45, "raft_state": "leader"}


def test_traffic_of_a_topic_is_summed_over_brokers() -> None:
    key: Key = ("topic", (("topic", "orders"),))
    nodes: dict[int, dict[Key, Row]] = {1: {key: {"bytes_in_rate": 5.0}}, 2: {key: {"bytes_in_rate": 7.0}}}
    assert rows_of(nodes, "topic") == [{"topic": "orders", "bytes_in_rate": 12.0}]


@pytest.mark.parametrize(
    ("second", "complete", "why"),
    [
        ({}, False, "it did not answer"),
        ({NODE: {"broker_state": 3}}, True, "it has just started: no rate is known yet"),
    ],
)
def test_traffic_is_not_summed_without_one_of_the_brokers(second: dict[Key, Row], complete: bool, why: str) -> None:
    key: Key = ("topic", (("topic", "orders"),))
    first: dict[Key, Row] = {NODE: {"broker_state": 3, "bytes_in_rate": 5.0}, key: {"bytes_in_rate": 5.0}}

    batches = {b.table: b for b in jmx_batches("east", 5, {1: first, 2: second}, BUILT_IN, complete=complete)}

    assert batches["cluster"].rows["bytes_in_rate"].to_pylist() == [None], why
    assert batches["topic"].rows["bytes_in_rate"].to_pylist() == [None], why
    assert batches["broker"].rows["bytes_in_rate"].to_pylist()[0] == 5, "its own is known"


def test_what_the_controller_reports_about_a_broker_joins_its_row() -> None:
    nodes: dict[int, dict[Key, Row]] = {
        1: {NODE: {"threads": 9}, ("broker", (("broker", "2"),)): {"heartbeat_age_ms": 40}},
        2: {NODE: {"threads": 8}},
    }
    assert rows_of(nodes, "broker") == [
        {"broker": 1, "threads": 9},
        {"broker": 2, "threads": 8, "heartbeat_age_ms": 40},
    ]


def test_a_text_where_a_number_belongs_is_left_out() -> None:
    assert rows_of({1: {NODE: {"threads": "many", "broker_state": 3}}}, "broker") == [{"broker": 1, "broker_state": 3}]


def test_a_users_own_beans_are_stored_like_the_others() -> None:
    own = [
        UserField("broker", "mine", (), False, "mine", ""),
        UserField("pool", "used", ("pool",), False, "used", "bytes"),
        UserField("pool", "state", ("pool",), True, "state", ""),
    ]
    tables = with_user_fields(BUILT_IN, own)
    nodes: dict[int, dict[Key, Row]] = {
        1: {NODE: {"mine": 4}, ("pool", (("pool", "eden"),)): {"used": 3, "state": "ok"}}
    }
    assert rows_of(nodes, "broker", tables=tables) == [{"broker": 1, "mine": 4.0}]
    assert rows_of(nodes, "pool", tables=tables) == [{"broker": 1, "pool": "eden", "used": 3.0, "state": "ok"}]
    assert "mine" not in BUILT_IN["broker"].schema.names, "the built-in catalogue stays as it is"


def test_partitions_are_summed_over_brokers_and_not_over_controllers() -> None:
    nodes = {
        1: {"under_replicated_partitions": 3, "active_controller": 0, "controller_offline_partitions": 2},
        2: {
            "under_replicated_partitions": 4,
            "active_controller": 1,
            "controller_offline_partitions": 2,
            "fenced_brokers": 1,
        },
        3: {"active_controller": 0, "controller_offline_partitions": 1, "fenced_brokers": 9},
    }
    row = cluster_row(nodes, complete=True)
    assert row["jmx_under_replicated_partitions"] == 7
    assert row["jmx_offline_partitions"] == 2
    assert row["fenced_brokers"] == 1, "standbys may be behind: the active controller knows"


STANDBY = {"active_controller": 0, "raft_state": "follower"}
LOST = {"active_controller": 0, "raft_state": "prospective-voted"}


@pytest.mark.parametrize(
    ("nodes", "complete", "active", "why"),
    [
        ({1: STANDBY, 2: {"active_controller": 1}}, False, 1, "one leads"),
        ({1: {"active_controller": 1}, 2: {"active_controller": 1}}, True, 2, "two lead: a broken cluster"),
        ({1: STANDBY, 2: STANDBY, 3: STANDBY}, True, 0, "all queried, none leads"),
        ({1: STANDBY, 2: STANDBY}, False, None, "the one they follow did not answer"),
        ({1: {**STANDBY, "raft_voters": 3}, 2: STANDBY}, True, None, "a voter is not listed: it may lead"),
        ({1: LOST}, False, 0, "the queried one looks for a leader"),
        ({1: {"active_controller": 0}}, False, None, "nothing is known of the others"),
        ({9: {"raft_state": "observer"}}, True, None, "no controller was queried: absent is not 0"),
        ({9: {"threads": 4}}, True, None, "brokers have no such bean"),
    ],
)
def test_how_many_controllers_lead(nodes: dict[int, Row], complete: bool, active: int | None, why: str) -> None:
    assert cluster_row(nodes, complete=complete)["jmx_active_controllers"] == active, why


def test_a_bean_of_a_broker_without_a_number_is_left_out() -> None:
    nodes: dict[int, dict[Key, Row]] = {1: {NODE: {"threads": 9}, ("broker", (("broker", "all"),)): {"threads": 1}}}
    assert rows_of(nodes, "broker") == [{"broker": 1, "threads": 9}]
