"""`lagwatch journal`, `lag --journal` and `cluster --journal` over the journal of an agent on a real cluster."""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lagwatch.clock import Moment, SystemClock
from lagwatch.config import load_settings
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.event_kinds import EventKind
from lagwatch.journal import Journal
from lagwatch.pipeline.events import Event, event_batch
from lagwatch.runtime.agent import Agent
from lagwatch.source_names import KAFKA
from tests.harness.cli import command, lagwatch
from tests.harness.cluster_views import batch, failure, lag_row
from tests.harness.waiting import wait_until


@pytest.fixture
def config(kafka: KafkaCluster, tmp_path: Path) -> Path:
    file = tmp_path / "lagwatch.yml"
    file.write_text(
        f"journal: {{path: {tmp_path}/j.db}}\nclusters:\n  - name: east\n    bootstrap: {kafka.bootstrap}\n"
        "    groups: {include: ['cli-j.*']}\n    deadline: 30s\n    intervals: {kafka: 5m, quorum: 5m, logdirs: 5m}\n"
    )
    return file


def test_the_commands_read_what_an_agent_wrote(kafka: KafkaCluster, config: Path) -> None:
    kafka.create_topic("cli-journal", partitions=2, replication=3)
    kafka.produce("cli-journal", {0: 9, 1: 9})
    kafka.commit("cli-j", {("cli-journal", 0): 4, ("cli-journal", 1): 9})
    journal = config.parent / "j.db"
    # A test before this one may have killed a broker, whose replicas are still catching up.
    wait_until(lambda: lagwatch("cluster", "--bootstrap", kafka.bootstrap).code == 0, 60, "the cluster is not well")
    agent = Agent(load_settings(config))
    try:
        agent.run_once()
        agent.run_once()
        with ThreadPoolExecutor() as pool:  # at once, before the polls look old to them; while the agent holds the file
            reading = [
                pool.submit(lagwatch, "lag", "--journal", journal),
                pool.submit(lagwatch, "cluster", "--journal", journal, "--json"),
            ]
        by_journal, health = (ran.result() for ran in reading)
        by_kafka = lagwatch("lag", "--config", config)
        stats = lagwatch("journal", "stats", journal, "--json")
    finally:
        agent.stop()
    assert by_journal.code == 0, by_journal.stderr
    assert by_journal.lines[0].split()[-2:] == ["UNMOVED", "AGE"]
    assert [line.split()[:6] for line in by_journal.lines] == [line.split()[:6] for line in by_kafka.lines]
    assert "stale" not in by_journal.stdout
    assert (health.code, health.json["problems"]) == (0, [])
    assert [row["broker"] for row in health.json["broker_list"]] == [1, 2, 3]
    assert all(row["size_bytes"] for row in health.json["broker_list"])
    assert stats.json["polls"] == 14, "two runs of seven jobs"
    assert stats.json["tables"]["consumer_lag"]["rows"] == 4

    rows = [json.loads(line) for line in lagwatch("journal", "tail", "--config", config, "--table", "consumer_lag",
            "--last", 1, "--json").lines]  # fmt: skip
    assert [(row["table"], row["cluster"], row["group"], row["lag"]) for row in rows] == [
        ("consumer_lag", "east", "cli-j", 5),
        ("consumer_lag", "east", "cli-j", 0),
    ]
    assert "checkpoint: poll 14" in lagwatch("journal", "stats", journal).stdout


def write_down(path: Path, *, age_seconds: float) -> None:
    """A journal whose newest poll reached no broker."""
    now = SystemClock().wall_ms() - round(age_seconds * 1000)
    with_lag = batch(
        "consumer_lag", [lag_row("g", "t", 0, 5, 7, seconds_since_moved=1.0, stale=True, age_seconds=125.0)], now
    )
    source = batch("source", [failure("kafka", "", "no broker answered", now - 125_000)], now)
    journal = Journal(path)
    journal.append([replace(one, source=KAFKA) for one in (with_lag, source)])
    journal.close()


def test_stale_rows_are_marked_with_the_reason(tmp_path: Path) -> None:
    write_down(tmp_path / "j.db", age_seconds=5)
    ran = lagwatch("lag", "--journal", tmp_path / "j.db")
    assert ran.code == 1
    assert ran.lines[1].split()[:6] == ["g", "t", "0", "5", "?", "7"]
    # 2m10s and what the command takes to start on a busy machine
    assert re.search(r" stale 2m[1-5]\ds", ran.lines[1])
    assert re.fullmatch(r"could not query kafka for 2m[1-5]\ds: no broker answered", ran.lines[2])
    assert ran.stderr.rstrip() == ran.lines[2]


def test_a_journal_without_new_polls_is_stale(tmp_path: Path) -> None:
    write_down(tmp_path / "j.db", age_seconds=7200)
    ran = lagwatch("lag", "--journal", tmp_path / "j.db")
    assert ran.code == 1
    assert ran.stderr.startswith("the newest poll is 2h")
    assert " old: is the agent running?" in ran.stderr
    assert " stale 2h2m" in ran.lines[1]


def test_clusters_are_chosen_by_name(tmp_path: Path) -> None:
    write_down(tmp_path / "j.db", age_seconds=1)
    assert lagwatch("lag", "--journal", tmp_path / "j.db", "--cluster", "east").code == 1
    wrong = lagwatch("lag", "--journal", tmp_path / "j.db", "--cluster", "west")
    assert wrong.code == 2
    assert 'no cluster "west" (there are: east)' in wrong.stderr


def test_tail_follows_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    write_down(path, age_seconds=1)
    words = command("journal", "tail", path, "--follow", "--json", "--table", "event", "--table", "consumer_lag")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        journal = Journal(path)
        events = [Event(EventKind.REBALANCE, "g", "", "", "it moved")]
        journal.append(event_batch("east", events, Moment.now(SystemClock()), "kafka"))
        second = json.loads(process.stdout.readline())
        process.terminate()
        journal.close()
    assert (first["table"], first["lag"]) == ("consumer_lag", 7)
    assert (second["table"], second["kind"], second["cluster"]) == ("event", "rebalance", "east")


def test_a_file_that_is_not_a_journal_is_an_error_message(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello" * 1000)
    (tmp_path / "empty").touch()
    for sub in (["stats"], ["tail"]):
        for name, error in (
            ("text", "not a readable journal"),
            ("empty", "journal"),
            ("missing", "there is no journal"),
            ("", "is a directory"),
        ):
            ran = lagwatch("journal", *sub, tmp_path / name)
            assert (ran.code, ran.stdout) == (2, ""), name
            assert error in ran.stderr
            assert "Traceback" not in ran.stderr
    assert lagwatch("journal", "stats").code == 2
    assert "no table" in lagwatch("journal", "tail", tmp_path / "text", "--table", "x").stderr
