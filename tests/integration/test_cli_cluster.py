"""`lagwatch cluster` and `config check --sizes` on a real cluster, healthy and degraded."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.cli import Ran, lagwatch
from tests.harness.ports import closed_port
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def filled(kafka: KafkaCluster) -> KafkaCluster:
    kafka.create_topic("cli-health", partitions=6, replication=3, config={"min.insync.replicas": "3"})
    kafka.produce("cli-health", dict.fromkeys(range(6), 5))
    return kafka


def ask(kafka: KafkaCluster, *arguments: object) -> Ran:
    return lagwatch("cluster", "--bootstrap", kafka.bootstrap, *arguments)


def test_a_healthy_cluster_exits_0(filled: KafkaCluster) -> None:
    wait_until(lambda: ask(filled).code == 0, 60, lambda: ask(filled).stdout)
    found = ask(filled, "--json").json
    assert [row["broker"] for row in found["broker_list"]] == [1, 2, 3]
    assert all(row["registered"] and row["answers"] and row["size_bytes"] > 0 for row in found["broker_list"])
    assert sum(row["controller"] for row in found["broker_list"]) == 1
    assert found["quorum"]["quorum_voters"] == 3
    assert found["quorum"]["controller"] in (1, 2, 3)
    assert found["cluster_id"] == filled.cluster_id
    assert (found["problems"], found["failures"], found["suspect"]) == ([], [], None)


def test_a_dead_broker_is_the_suspect(filled: KafkaCluster) -> None:
    filled.nodes[2].kill()
    filled.wait_for_brokers({1, 3})
    wait_until(lambda: (ask(filled, "--json").json["suspect_broker"]) == 2, 60, lambda: ask(filled).stdout)

    ran = ask(filled, "--top", 3)
    found = ask(filled, "--json").json
    under = found["under_replicated_partitions"]
    assert ran.code == 1
    assert f"suspect: broker 2 is missing from {under} of {under} under-replicated partitions" in ran.lines
    assert any(line.split()[:1] == ["2"] and "not registered" in line for line in ran.lines)
    assert f"... and {under - 3} more partitions" in ran.lines
    assert "could not query broker 2 (kafka): not registered with the cluster" in ran.stderr
    below = [row for row in found["bad_partitions"] if row["under_min_isr"]]
    ours = [row for row in below if row["topic"] == "cli-health"]  # the cluster is shared: other tests have topics too
    assert [(row["min_isr"], row["in_sync_replicas"]) for row in ours] == [(3, 2)] * 6


def test_connection_refused_exits_2() -> None:
    ran = lagwatch("cluster", "--bootstrap", f"127.0.0.1:{closed_port()}")
    assert ran.code == 2
    assert ran.stdout == ""
    assert "connection refused" in ran.stderr


def test_config_check_counts_what_there_is(filled: KafkaCluster, tmp_path: Path) -> None:
    filled.commit("cli-counted", {("cli-health", number): 1 for number in range(6)})
    file = tmp_path / "lagwatch.yml"
    file.write_text(
        f"clusters:\n  - name: east\n    bootstrap: {filled.bootstrap}\n"
        "    groups: {include: [cli-counted]}\n    topics: {include: [cli-health]}\n"
    )
    counts = lagwatch("config", "check", file, "--sizes", "--json").json["counts"]["east"]
    assert counts == {"groups": 1, "group_partitions": 6, "topics": 1, "partitions": 6, "brokers": 3}
    by_config = lagwatch("lag", "--config", file, "--json").json
    assert (by_config["cluster"], [group["group"] for group in by_config["groups"]]) == ("east", ["cli-counted"])


def test_a_missing_controller_is_reported_on_both_streams(filled: KafkaCluster) -> None:
    for number in (2, 3):
        filled.nodes[number].kill()
    wait_until(lambda: "NO CONTROLLER" in ask(filled).stdout, 90, lambda: ask(filled).stdout)
    ran = ask(filled)
    assert ran.code == 1
    assert "no controller" in ran.stderr
