"""The JMX job over scripted connections: calls that hang, nodes that disappear, patterns that match too many beans."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from collectors.jmx_beans.beans import BROKER_ROLE_BEAN, Aggregation, Bean, Role
from collectors.jmx_beans.connection_interface import BeanAttributes, BeanQuery, JmxConnection
from collectors.jmx_brokers import _MAX_BEANS, JmxBrokers
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoints
from lagwatch.errors import SourceError
from tests.harness.fake_connection import FakeConnection
from tests.harness.jmx import by_node, rows_of
from tests.harness.waiting import wait_until

THREADS = Bean("java.lang:type=Threading", "ThreadCount", "threads", role=Role.ANY)
RAFT = Bean("kafka.server:type=raft-metrics", "number-of-observers", "raft_observers", role=Role.ANY)


class FakeNode:
    """Beans as a dictionary; `gate` holds up every call while it is closed."""

    def __init__(self, beans: Mapping[str, Mapping[str, Any]]) -> None:
        self.beans = beans
        self.gate = threading.Event()
        self.gate.set()
        self.fails = ""
        self.queried: list[BeanQuery] = []
        self.closed = 0

    def names(self, patterns: Sequence[str]) -> list[list[str]]:
        self._wait()
        return [[name for name in self.beans if name.startswith(pattern.rstrip("*"))] for pattern in patterns]

    def attributes(self, beans: Sequence[str]) -> list[list[str]]:
        return [sorted(self.beans.get(bean, {})) for bean in beans]

    def read(self, questions: Sequence[BeanQuery]) -> list[BeanAttributes]:
        self._wait()
        self.queried = list(questions)
        return [
            {name: self.beans[q.bean][name] for name in q.attributes if name in self.beans[q.bean]}
            if q.bean in self.beans
            else None
            for q in questions
        ]

    def close(self) -> None:
        self.closed += 1

    def _wait(self) -> None:
        assert self.gate.wait(60)
        if self.fails:
            raise SourceError(self.fails)


@pytest.fixture
def nodes() -> Iterator[dict[int, FakeNode]]:
    made = {number: FakeNode({THREADS.bean: {"ThreadCount": 10 * number}}) for number in (1, 2)}
    yield made
    for node in made.values():
        node.gate.set()


def job(nodes: Mapping[int, FakeNode], *beans: Bean, deadline_seconds: float = 30) -> JmxBrokers:
    def connect(_host: str, port: int) -> JmxConnection:
        return nodes[port]

    listed = ConfiguredEndpoints({number: ("node", number) for number in nodes}, {})
    return JmxBrokers("east", connect, Endpoints(listed), beans=beans or (THREADS,), deadline_seconds=deadline_seconds)


def test_a_pending_call_is_not_followed_by_another(nodes: dict[int, FakeNode]) -> None:
    nodes[2].gate.clear()
    jmx = job(nodes, deadline_seconds=2)
    first, second = jmx.collect(0), jmx.collect(0)
    assert [failure.target for failure in first.failures] == ["broker 2"]
    assert first.failures[0].reason.startswith("node:2: no answer within 2.")
    assert "is still pending" in second.failures[0].reason
    assert [by_node(found)[1]["threads"] for found in (first, second)] == [10, 10]
    nodes[2].gate.set()
    wait_until(lambda: not jmx.collect(0).failures, 60)


def test_a_failed_call_closes_the_connection_and_the_next_poll_opens_one(nodes: dict[int, FakeNode]) -> None:
    jmx = job(nodes)
    nodes[1].fails = "connection lost"
    assert [failure.reason for failure in jmx.collect(0).failures] == ["node:1: connection lost"]
    assert nodes[1].closed == 1
    nodes[1].fails = ""
    assert set(by_node(jmx.collect(0))) == {1, 2}


def test_when_no_broker_responds_the_whole_source_is_down(nodes: dict[int, FakeNode]) -> None:
    for node in nodes.values():
        node.fails = "connection refused"
    collected = job(nodes).collect(0)
    assert (collected.batches, collected.complete) == ([], False)
    assert [failure.target for failure in collected.failures] == ["", "broker 1", "broker 2"]
    assert "connection refused" in collected.failures[0].reason


def test_a_missing_attribute_is_not_queried_until_it_exists() -> None:
    node = FakeNode({RAFT.bean: {"current-state": "follower"}})
    jmx = job({1: node}, RAFT)
    jmx.collect(0)
    assert node.queried == [BeanQuery(RAFT.bean, ())]
    node.beans = {RAFT.bean: {"number-of-observers": 2}}
    assert by_node(jmx.collect(0))[1]["raft_observers"] == 2
    node.beans = {RAFT.bean: {"current-state": "follower"}}
    jmx.collect(0)  # it queries once more and finds it
    jmx.collect(0)
    assert node.queried == [BeanQuery(RAFT.bean, ())]


def test_a_pattern_with_very_many_beans_is_read_in_part_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    pattern = Bean("d:type=Client,*", "Value", "connections", Aggregation.SUM, Role.ANY)
    node = FakeNode({f"d:type=Client,*{number}".replace("*", "id="): {"Value": 1} for number in range(_MAX_BEANS + 10)})
    assert by_node(job({1: node}, pattern).collect(0))[1]["connections"] == _MAX_BEANS
    assert "pattern='d:type=Client,*' found=510 read=500" in caplog.text


def test_without_any_endpoint_the_reason_is_reported() -> None:
    collected = JmxBrokers("east", lambda *_: FakeNode({}), Endpoints(ConfiguredEndpoints({}, {}))).collect(0)
    assert collected.failures[0].reason == "no JMX endpoint: none is listed"


def no_response(node: int, request: Any) -> Any:
    raise AssertionError(f"request to broker {node}: {request}")


def test_a_broker_missing_from_the_metadata_is_queried_for_ten_more_minutes() -> None:
    connection, now = FakeConnection(no_response, [1, 2]), [1000.0]
    endpoints = Endpoints(ConfiguredEndpoints({}, {}, port="99{broker}"), connection, lambda: now[0])

    def found() -> list[tuple[int, str, int]]:
        return [(endpoint.node, endpoint.host, endpoint.port) for endpoint in endpoints.find(1)]

    assert found() == [(1, "kafka1", 991), (2, "kafka2", 992)]
    del connection.brokers[2]
    now[0] += 599
    assert len(found()) == 2
    now[0] += 2
    assert found() == [(1, "kafka1", 991)]


def test_roles_are_in_the_rows_of_a_node_that_is_a_broker() -> None:
    node = FakeNode({BROKER_ROLE_BEAN: {"Value": 3}})
    collected = job({1: node}, Bean(BROKER_ROLE_BEAN, "Value", "broker_state")).collect(0)
    assert rows_of(collected, "broker") == [{"broker": 1, "roles": "broker", "broker_state": 3}]
