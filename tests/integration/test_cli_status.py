"""`lagwatch status` and `lagwatch explain` on a real cluster: from an agent's journal, and by their own polls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.agents import running_agent, write_config
from tests.harness.cli import lagwatch
from tests.harness.ports import closed_port

# By Burrow's rules one commit with something unread behind it is STOP a second later; by lagwatch's that takes minutes.
_VERDICTS = "    verdicts: {overrides: [{groups: status-stopped, mode: burrow}]}"


@pytest.fixture(scope="module")
def filled(kafka: KafkaCluster) -> KafkaCluster:
    kafka.create_topic("status-orders", partitions=2, replication=3)
    kafka.produce("status-orders", {0: 20, 1: 20})
    kafka.commit("status-fine", {("status-orders", number): 20 for number in range(2)})
    kafka.commit("status-stopped", {("status-orders", 0): 5, ("status-orders", 1): 20})
    return kafka


@pytest.fixture(scope="module")
def config(filled: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration of a running agent that has evaluated its groups."""
    path = write_config(tmp_path_factory.mktemp("status"), filled.bootstrap, extra=_VERDICTS)
    with running_agent(path) as agent:
        agent.wait_for(
            "consumer_group",
            lambda rows: any(r["group"] == "status-stopped" and "is STOP: silent" in (r["why"] or "") for r in rows),
        )
        yield path


def test_status_reads_a_running_agents_journal(config: Path) -> None:
    ran = lagwatch("status", "--config", config, "--group", "status-*")
    assert ran.code == 1, ran.stderr
    stopped, fine = ran.lines[1:3]
    assert stopped.split()[:3] == ["status-stopped", "ERR", "15"]
    assert "status-orders/0 is STOP: silent " in stopped
    assert fine.split()[:4] == ["status-fine", "OK", "0", "0s"]
    assert any(line.split()[:3] == ["status-orders", "0", "STOP"] for line in ran.lines[3:])
    assert lagwatch("status", "--config", config, "--group", "status-fine").code == 0
    document = lagwatch("status", "--config", config, "--group", "status-stopped", "--json").json
    [group] = document["groups"]
    assert [row["status"] for row in group["partitions"]] == ["STOP", "OK"]
    assert group["partitions"][0]["why"].startswith("silent ")


def test_explain_shows_the_rule_that_decided(config: Path) -> None:
    ran = lagwatch("explain", "status-stopped", "--config", config, "--topic", "status-orders", "--partition", 0)
    assert ran.code == 1, ran.stderr
    assert "evaluated by Burrow's rules, commits from the offsets topic" in ran.lines[1]
    [deciding] = [line for line in ran.lines if line.startswith("=>")]
    assert "silent for longer than its commits span?  yes" in deciding
    without_settings = lagwatch("explain", "status-stopped", "--journal", config.parent / "journal.db")
    assert "which has other settings; to use them, add --config FILE" in without_settings.stdout
    missing = lagwatch("explain", "status-stoped", "--config", config)
    assert missing.code == 2
    assert "did you mean status-stopped" in missing.stderr


def test_a_cluster_can_be_polled_for_a_while_without_an_agent(filled: KafkaCluster) -> None:
    words = ("--bootstrap", filled.bootstrap, "--for", "2s", "--interval", "1s")
    ran = lagwatch("status", *words, "--group", "status-*")
    assert ran.code == 0, ran.stderr
    assert [line.split()[:3] for line in ran.lines[1:3]] == [
        ["status-stopped", "OK?", "15"],
        ["status-fine", "OK", "0"],
    ]
    assert "watching for 2s, a poll every 1s" in ran.stderr
    assert "windows are 10% full" in ran.stderr
    explained = lagwatch("explain", "status-fine", *words, "--json").json
    assert explained["cluster"]["watched_seconds"] >= 2
    assert {rule["name"] for part in explained["group"]["partitions"] for rule in part["rules"] if rule["decides"]} == {
        "caught_up"
    }


def test_connection_refused_is_reported_at_once() -> None:
    ran = lagwatch("status", "--bootstrap", f"127.0.0.1:{closed_port()}")
    assert ran.code == 2
    assert "connection refused" in ran.stderr
    assert ran.stdout == ""
