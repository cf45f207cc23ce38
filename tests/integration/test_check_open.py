"""`lagwatch check` of an open cluster of three brokers: all healthy, and with one unavailable."""

from __future__ import annotations

import json
from typing import Any

import typer
from typer.testing import CliRunner, Result

from lagwatch.cli.check_command import check
from lagwatch.demo.kafka_cluster import KafkaCluster


def run_check(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(check)
    return CliRunner().invoke(app, list(arguments))


def steps_of(result: Result, name: str) -> list[dict[str, Any]]:
    [cluster] = json.loads(result.stdout)["clusters"]
    return [step for step in cluster["steps"] if step["step"] == name]


def test_an_open_cluster_is_fine(kafka: KafkaCluster) -> None:
    kafka.create_topic("checked")
    kafka.commit("checked-group", {("checked", 0): 0})

    result = run_check("--bootstrap", kafka.bootstrap)

    lines = result.stdout.splitlines()
    assert result.exit_code == 0, result.stdout
    assert lines[0] == f"cluster bootstrap: {kafka.bootstrap.replace(',', ', ')}, PLAINTEXT as User:ANONYMOUS"
    assert lines[-1] == "cluster bootstrap: all fine"
    assert sum(line.split()[:2] == ["ok", "broker"] for line in lines) == 3


def test_a_bootstrap_address_that_refuses_connections_affects_only_itself(kafka: KafkaCluster) -> None:
    result = run_check("--bootstrap", f"127.0.0.1:1,nowhere.invalid:9092,{kafka.bootstrap}", "--json")

    assert result.exit_code == 1
    assert [step["target"] for step in steps_of(result, "DNS") if step["state"] == "failed"] == ["nowhere.invalid"]
    assert [step["target"] for step in steps_of(result, "TCP") if step["state"] == "failed"] == ["127.0.0.1:1"]
    assert [step["state"] for step in steps_of(result, "Metadata")] == ["ok"]


def test_a_broker_that_hangs_is_named_and_the_others_are_queried(slow_to_fence: KafkaCluster) -> None:
    slow_to_fence.create_topic("on-three", assignment={0: [3]})
    slow_to_fence.node(3).pause()

    result = run_check("--bootstrap", slow_to_fence.bootstrap, "--timeout", "2s", "--json")

    brokers = {step["target"][0]: step for step in steps_of(result, "broker")}
    assert {node: step["state"] for node, step in brokers.items()} == {"1": "ok", "2": "ok", "3": "failed"}
    assert "no answer within" in brokers["3"]["message"]
    assert brokers["3"]["impact"] == "the groups it coordinates and the partitions it leads"
    assert [step["state"] for step in steps_of(result, "DescribeLogDirs")] == ["ok"]
    assert result.exit_code == 1
