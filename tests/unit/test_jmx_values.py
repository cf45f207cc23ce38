"""Fields from beans: rates that survive missed polls and restarts, sums, means, roles, and idleness from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from collectors.jmx_beans.beans import (
    BROKER_ROLE_BEAN,
    CONTROLLER_ROLE_BEAN,
    DEFAULT_BEANS,
    IDLE_COMBINED,
    IDLE_OF_BROKER,
    IDLE_OF_CONTROLLER,
    Aggregation,
    Bean,
    Role,
    topic_beans,
)
from collectors.jmx_beans.values import Counters, Key, Row, evaluate, handler_idle, patterns_in, plan_queries, roles_in
from lagwatch.catalogue import BUILT_IN

COUNTER = Bean("k:name=In", "Count", "bytes_in_rate", Aggregation.RATE, Role.ANY)
REQUESTS = Bean(
    "k:name=Requests,*", "Count", "rate", Aggregation.RATE, Role.ANY, "broker_request", (("request", "request"),)
)
START = Bean("java.lang:type=Runtime", "StartTime", "started_ms", role=Role.ANY)
BOTH = frozenset({Role.ANY, Role.BROKER, Role.CONTROLLER})


class Node:
    """A node whose beans a test sets; each poll gives the rows of the newest values."""

    def __init__(self, *beans: Bean) -> None:
        self._beans = (*beans, START)
        self._counters = Counters()

    def poll(self, at: float, values: Mapping[str, Mapping[str, Any]], started: int = 7) -> dict[Key, Row]:
        beans = {**values, START.bean: {"StartTime": started}}
        names = {
            pattern: [n for n in beans if n.startswith(pattern.rstrip("*"))] for pattern in patterns_in(self._beans)
        }
        plan = plan_queries(self._beans, names, max_beans=10)
        answers = [beans.get(question.bean) for question in plan.queries]
        rows, self._counters = evaluate(plan, answers, roles_in(names), self._counters, at)
        return rows


def rate(rows: dict[Key, Row]) -> float | None:
    return rows["broker", ()].get("bytes_in_rate")


def test_a_rate_is_the_growth_of_a_counter_over_the_time_between_polls() -> None:
    node = Node(COUNTER)
    assert rate(node.poll(100, {"k:name=In": {"Count": 1000}})) is None
    assert rate(node.poll(110, {"k:name=In": {"Count": 1500}})) == 50


def test_missed_polls_make_the_rate_a_longer_average() -> None:
    node = Node(COUNTER)
    node.poll(100, {"k:name=In": {"Count": 1000}})
    assert rate(node.poll(160, {"k:name=In": {"Count": 4000}})) == 50


@pytest.mark.parametrize(("count", "started"), [(10, 7), (5000, 8)], ids=["count went down", "another start time"])
def test_a_restart_has_no_rate_and_the_next_poll_has(count: int, started: int) -> None:
    node = Node(COUNTER)
    node.poll(100, {"k:name=In": {"Count": 1000}})
    assert rate(node.poll(110, {"k:name=In": {"Count": count}}, started)) is None
    assert rate(node.poll(120, {"k:name=In": {"Count": count + 100}}, started)) == 10


def test_a_bean_that_is_not_there_leaves_its_field_absent() -> None:
    rows = Node(COUNTER, Bean("k:name=Idle", "Value", "network_processor_idle", role=Role.ANY)).poll(1, {})
    assert rows["broker", ()].keys() == {"started_ms"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "text"])
def test_values_that_mean_none_are_dropped(value: Any) -> None:
    bean = Bean("k:name=In", "Count", "raft_leader", Aggregation.SUM, Role.ANY, absent=(-1,))
    assert "raft_leader" not in Node(bean).poll(1, {"k:name=In": {"Count": value}})["broker", ()]


def test_a_counter_that_appears_later_counts_from_zero() -> None:
    node = Node(REQUESTS)
    node.poll(100, {"k:name=Requests,request=Produce,version=9": {"Count": 10}})
    rows = node.poll(
        110,
        {
            "k:name=Requests,request=Produce,version=9": {"Count": 20},
            "k:name=Requests,request=Produce,version=11": {"Count": 30},
        },
    )
    assert rows["broker_request", (("request", "Produce"),)]["rate"] == 4


def test_a_counter_that_was_not_read_before_has_no_rate_yet() -> None:
    node = Node(COUNTER)
    node.poll(100, {"k:name=In": {"Count": 10**9}})
    node.poll(110, {})
    assert rate(node.poll(120, {"k:name=In": {"Count": 10**9 + 50}})) is None
    assert rate(node.poll(130, {"k:name=In": {"Count": 10**9 + 100}})) == 5


def test_a_bean_that_comes_below_the_limit_does_not_begin_at_zero() -> None:
    node = Node(REQUESTS)
    beans = {f"k:name=Requests,request=R{n:02}": {"Count": 10**9} for n in range(11)}  # ten are read
    node.poll(100, beans)
    del beans["k:name=Requests,request=R00"]
    assert ("broker_request", (("request", "R10"),)) not in node.poll(110, beans)
    assert node.poll(120, beans)["broker_request", (("request", "R10"),)]["rate"] == 0


def test_the_mean_is_of_what_came_since_the_poll_before() -> None:
    bean = Bean("k:name=Time", "Mean", "total_mean_ms", Aggregation.MEAN, Role.ANY, "broker_request")
    node, key = Node(bean), ("broker_request", ())
    assert key not in node.poll(100, {"k:name=Time": {"Mean": 10.0, "Count": 100}})
    rows = node.poll(110, {"k:name=Time": {"Mean": 20.0, "Count": 200}})
    assert rows[key]["total_mean_ms"] == pytest.approx(30)
    assert key not in node.poll(120, {"k:name=Time": {"Mean": 20.0, "Count": 200}}), "no requests, no mean"


def test_sums_are_over_all_beans_of_a_pattern_and_values_are_the_largest() -> None:
    summed = Bean("k:name=Dirs,*", "Value", "uncleanable_partitions", Aggregation.SUM, Role.ANY)
    largest = Bean("k:name=Dirs,*", "Value", "produce_throttle_ms", Aggregation.VALUE, Role.ANY)
    rows = Node(summed, largest).poll(1, {'k:name=Dirs,d="/a"': {"Value": 2}, 'k:name=Dirs,d="/b"': {"Value": 3}})
    assert (rows["broker", ()]["uncleanable_partitions"], rows["broker", ()]["produce_throttle_ms"]) == (5, 3)


def test_groups_of_every_protocol_are_counted() -> None:
    beans = [bean for bean in DEFAULT_BEANS if bean.field == "coordinated_groups" or bean.bean == BROKER_ROLE_BEAN]
    classic = {
        "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups": {"Value": 2},
        BROKER_ROLE_BEAN: {"Value": 3},
    }
    consumer = {"kafka.server:type=group-coordinator-metrics,protocol=consumer": {"group-count": 5}}
    assert Node(*beans).poll(1, classic)["broker", ()]["coordinated_groups"] == 2, "3.9 has no others"
    assert Node(*beans).poll(1, classic | consumer)["broker", ()]["coordinated_groups"] == 7


def test_answers_without_an_error_are_not_counted_as_errors() -> None:
    bean = Bean(
        "k:name=Errors,*",
        "Count",
        "error_rate",
        Aggregation.RATE,
        Role.ANY,
        "broker_request",
        (("request", "request"),),
    )
    node = Node(bean)
    node.poll(100, {})
    rows = node.poll(
        110,
        {
            "k:name=Errors,request=Produce,error=NONE": {"Count": 1000},
            "k:name=Errors,request=Produce,error=TIMEOUT": {"Count": 5},
        },
    )
    assert rows["broker_request", (("request", "Produce"),)]["error_rate"] == 0.5


def test_a_pattern_reads_a_limited_number_of_beans() -> None:
    names = {REQUESTS.bean: [f"k:name=Requests,request=R{n}" for n in range(50)]}
    assert len(plan_queries([REQUESTS], names, max_beans=10).queries) == 10


@pytest.mark.parametrize(
    ("signs", "role"),
    [
        ((BROKER_ROLE_BEAN,), "broker"),
        ((CONTROLLER_ROLE_BEAN,), "controller"),
        ((BROKER_ROLE_BEAN, CONTROLLER_ROLE_BEAN), "broker,controller"),
    ],
)
def test_roles_follow_from_the_beans_of_a_node(signs: tuple[str, ...], role: str) -> None:
    beans = [bean for bean in DEFAULT_BEANS if bean.bean in signs]
    rows = Node(*beans).poll(1, {sign: {"Value": 1} for sign in signs})
    assert rows["broker", ()]["roles"] == role


def test_a_controller_is_not_queried_for_beans_of_brokers() -> None:
    plan = plan_queries(DEFAULT_BEANS, {CONTROLLER_ROLE_BEAN: [CONTROLLER_ROLE_BEAN]}, max_beans=10)
    queried = {question.bean for question in plan.queries}
    assert CONTROLLER_ROLE_BEAN in queried
    assert not any("BrokerTopicMetrics" in bean or "RequestMetrics" in bean for bean in queried)


_ONE = {"OneMinuteRate": 1.0}


@pytest.mark.parametrize(
    ("values", "roles", "idle", "why"),
    [
        ({IDLE_COMBINED: {"OneMinuteRate": 0.9, "MeanRate": 0.95}}, {Role.BROKER}, 0.9, "a broker alone is right"),
        ({IDLE_COMBINED: {"OneMinuteRate": 1.8}}, {Role.BROKER, Role.CONTROLLER}, 0.8, "two pools added up"),
        ({IDLE_COMBINED: {"OneMinuteRate": 1.039}}, {Role.BROKER, Role.CONTROLLER}, 0.039,
         "measured on 4.1.2 with a busy broker; 4.3.1 under the same load reported 0.11"),
        ({IDLE_COMBINED: {"OneMinuteRate": 0.97}}, {Role.BROKER, Role.CONTROLLER}, 0.0, "busy since it started"),
        ({IDLE_COMBINED: {"OneMinuteRate": 1.02}}, {Role.BROKER}, 1.0, "a meter may overshoot"),
        ({IDLE_COMBINED: {"OneMinuteRate": 1.6}, IDLE_OF_BROKER: {"OneMinuteRate": 0.7}},
         {Role.BROKER, Role.CONTROLLER}, 0.7, "the broker's own is exact"),
        ({IDLE_COMBINED: _ONE, IDLE_OF_BROKER: _ONE, IDLE_OF_CONTROLLER: {"OneMinuteRate": 0.5}}, {Role.CONTROLLER}, 0.5,
         "the controller's own"),
        ({IDLE_COMBINED: {"OneMinuteRate": 0.0, "MeanRate": 0.9}}, {Role.BROKER}, None, "a meter before its first tick"),
        ({IDLE_OF_BROKER: {"OneMinuteRate": 0.0}}, {Role.BROKER}, None, "the same of the broker's own"),
        ({}, {Role.BROKER}, None, "no values"),
    ],
)  # fmt: skip
def test_request_handler_idleness_is_a_share(values: Any, roles: set[Role], idle: float | None, why: str) -> None:
    assert handler_idle(values, frozenset({Role.ANY, *roles})) == (None if idle is None else pytest.approx(idle)), why


@pytest.mark.parametrize(
    "bean", dict.fromkeys([*DEFAULT_BEANS, *topic_beans()]), ids=lambda b: f"{b.bean} {b.attribute}"
)
def test_every_line_of_the_table_is_in_the_catalogue(bean: Bean) -> None:
    table = BUILT_IN[bean.table]
    assert not bean.field or bean.field in {field.name for field in table.fields}
    assert {tag for tag, _ in bean.labels} <= {tag.name for tag in table.tags}


def test_no_two_lines_write_one_field_of_one_role() -> None:
    lines = [
        (b.field, b.role)
        for b in DEFAULT_BEANS
        if b.table == "broker" and b.field and b.attribute not in ("throttle-time", "group-count")
    ]
    assert len(set(lines)) == len(lines)


def test_there_is_no_mean_without_a_count() -> None:
    bean = Bean("k:name=Time", "Mean", "total_mean_ms", Aggregation.MEAN, Role.ANY, "broker_request")
    node = Node(bean)
    assert [("broker_request", ()) in node.poll(at, {"k:name=Time": {"Mean": 10.0}}) for at in (100, 110)] == [
        False
    ] * 2


def test_a_bean_without_a_field_only_identifies_the_role_of_a_node() -> None:
    sign = Bean("k:type=Sign", "Value", "", Aggregation.VALUE, Role.ANY, "broker")
    assert Node(sign).poll(100, {"k:type=Sign": {"Value": 1}}) == Node().poll(100, {})


def test_the_mean_pause_of_garbage_collection_is_that_of_its_rates() -> None:
    pauses = Bean("g:name=x", "CollectionCount", "gc_rate", Aggregation.RATE, Role.ANY, "broker")
    share = Bean("g:name=x", "CollectionTime", "gc_share", Aggregation.RATE, Role.ANY, "broker", scale=0.001)
    node = Node(pauses, share)
    node.poll(100, {"g:name=x": {"CollectionCount": 10, "CollectionTime": 500}})
    rows = node.poll(110, {"g:name=x": {"CollectionCount": 15, "CollectionTime": 600}})
    assert rows["broker", ()]["gc_mean_ms"] == pytest.approx(20)
