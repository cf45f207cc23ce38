"""Configuration of the nodes of a loopback cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lagwatch.demo.kafka_jvm import jmx_options
from lagwatch.demo.kafka_layout import (
    as_properties,
    kafka_uuid,
    meta_properties,
    node_settings,
    plan_nodes,
    port_chooser,
)

BOTH, BROKER, CONTROLLER = ("broker", "controller"), ("broker",), ("controller",)


@pytest.mark.parametrize(
    ("brokers", "controllers", "expected"),
    [
        (1, 0, {1: BOTH}),
        (2, 0, {1: BOTH, 2: BROKER}),  # two voters lose their quorum when either is gone
        (3, 0, {1: BOTH, 2: BOTH, 3: BOTH}),
        (4, 0, {1: BOTH, 2: BOTH, 3: BOTH, 4: BROKER}),  # more voters would only be slower
        (2, 3, {1: BROKER, 2: BROKER, 101: CONTROLLER, 102: CONTROLLER, 103: CONTROLLER}),
    ],
)
def test_roles_follow_from_the_numbers(brokers: int, controllers: int, expected: dict[int, tuple[str, ...]]) -> None:
    plans = plan_nodes(brokers, controllers, ["INTERNAL"], port_chooser())

    assert {plan.id: plan.roles for plan in plans} == expected


def test_every_port_is_given_once_and_lies_below_those_of_outgoing_connections() -> None:
    plans = plan_nodes(3, 3, ["INTERNAL", "SASL_SSL"], port_chooser())

    ports = [port for plan in plans for port in (*plan.ports.values(), plan.jmx_port)]
    assert len(ports) == len(set(ports)) == 3 * 3 + 3 * 2
    assert max(ports) < 32_768


def test_a_broker_knows_the_controllers_and_listens_on_loopback_only() -> None:
    plans = plan_nodes(1, 1, ["INTERNAL"], port_chooser())

    settings = node_settings(plans[0], plans, {"INTERNAL": "PLAINTEXT"}, Path("data"))

    assert settings["controller.quorum.voters"] == f"101@127.0.0.1:{plans[1].ports['CONTROLLER']}"
    assert settings["listeners"] == f"INTERNAL://127.0.0.1:{plans[0].ports['INTERNAL']}"
    assert settings["advertised.listeners"] == settings["listeners"]
    assert settings["listener.security.protocol.map"] == "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_a_pure_controller_advertises_nothing() -> None:
    plans = plan_nodes(1, 1, ["INTERNAL"], port_chooser())

    assert "advertised.listeners" not in node_settings(plans[1], plans, {"INTERNAL": "PLAINTEXT"}, Path("data"))


@pytest.mark.parametrize(("brokers", "copies"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_have_as_many_copies_as_there_are_brokers_up_to_three(brokers: int, copies: str) -> None:
    plans = plan_nodes(brokers, 0, ["INTERNAL"], port_chooser())

    settings = node_settings(plans[0], plans, {"INTERNAL": "PLAINTEXT"}, Path("data"))

    assert settings["offsets.topic.replication.factor"] == copies
    assert settings["transaction.state.log.replication.factor"] == copies


def test_jmx_is_open_to_this_machine_only() -> None:
    options = jmx_options(3)

    assert "-Dcom.sun.management.jmxremote.host=127.0.0.1" in options
    assert "-Dcom.sun.management.jmxremote.port=3" in options
    assert "-Dcom.sun.management.jmxremote.rmi.port=3" in options


def test_backslashes_and_line_ends_survive_a_properties_file() -> None:
    assert as_properties({"a": "1", "b": 'x\\y"\nz'}) == 'a=1\nb=x\\\\y"\\nz\n'


def test_each_data_folder_has_an_identity_of_its_own() -> None:
    one, two = (dict(line.split("=") for line in meta_properties("c", node).splitlines()) for node in (1, 2))

    assert (one["node.id"], two["node.id"]) == ("1", "2")
    assert one["cluster.id"] == two["cluster.id"] == "c"
    assert one["directory.id"] != two["directory.id"]


def test_ids_look_like_those_of_kafka() -> None:
    for _ in range(200):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", kafka_uuid())


def test_ports_come_from_the_given_range_each_once() -> None:
    ports = range(20_000, 20_500)
    choose = port_chooser(ports)

    chosen = [choose() for _ in range(50)]

    assert len(set(chosen)) == 50
    assert set(chosen) <= set(ports)
