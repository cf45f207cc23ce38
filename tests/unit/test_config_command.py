"""`lagwatch config`: data on stdout, talk on stderr, exit 0 fine, 1 a problem, 2 could not ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from lagwatch.cli.config_command import CountCluster, build_config_app
from lagwatch.config import ClusterSettings
from lagwatch.config.capacity import Counts
from lagwatch.config.reference import render_example
from lagwatch.errors import SourceError

GOOD = "agent: {name: ops-1}\nclusters:\n  - name: east\n    bootstrap: [kafka1:9092]\n"
LARGE = ("--groups", 1000, "--group-partitions", 100_000, "--topics", 1000, "--partitions", 10_000, "--brokers", 6)


def run(*arguments: object, count_cluster: CountCluster | None = None) -> Result:
    return CliRunner().invoke(build_config_app(count_cluster), [str(argument) for argument in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lagwatch.yml"
    path.write_text(GOOD)
    return path


def test_check_without_counts_says_what_they_would_cost(file: Path) -> None:
    result = run("check", file)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{file}: ok\nagent ops-1, journal ")
    assert "cluster east: kafka1:9092, PLAINTEXT, asked every 10s\n" in result.stdout
    assert "sizes: not asked: give --group-partitions" in result.stdout
    assert "each 1,000 group-partitions cost about 96.4 MiB written a day, 13.9 MiB kept for 1d" in result.stdout
    assert result.stderr == ""


def test_check_with_counts_prints_a_table(file: Path) -> None:
    result = run("check", file, "--groups", 10, "--group-partitions", 1000, "--partitions", 100, "--brokers", 3)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[3].split() == ["CLUSTER", "TABLE", "SERIES", "ROWS/DAY", "BYTES/DAY", "KEPT", "1d"]
    assert lines[4].split()[:4] == ["east", "consumer_lag", "1,000", "8,640,000"]
    assert lines[-1].startswith("journal: a history of 1d needs about ")
    assert lines[-1].endswith(": it fits")


def test_a_history_that_does_not_fit_is_a_problem(file: Path) -> None:
    result = run("check", file, *LARGE, "--group-partitions", "200000")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{file}: no mistakes, but its history does not fit\n")
    assert "it does not fit; set journal.max_size: 4GiB, or history: 12h" in result.stderr


def test_check_asks_the_clusters_when_it_can(file: Path) -> None:
    asked: list[str] = []

    def count(cluster: ClusterSettings) -> Counts:
        asked.append(cluster.name)
        return Counts(groups=7, group_partitions=70)

    result = run("check", file, "--json", count_cluster=count)
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["counts"]["east"]["groups"] == 7
    assert found["sizes"]["fits"] is True
    assert {table["table"] for table in found["sizes"]["tables"]} >= {"consumer_lag", "consumer_group", "agent"}
    assert asked == ["east"]

    run("check", file, "--offline", count_cluster=count)
    run("check", file, "--groups", "1", count_cluster=count)
    assert asked == ["east"]


def test_a_cluster_that_cannot_be_asked_is_not_a_mistake_of_the_file(file: Path) -> None:
    def count(cluster: ClusterSettings) -> Counts:
        raise SourceError(f"no broker answered at {cluster.bootstrap[0]}")

    result = run("check", file, count_cluster=count)
    assert result.exit_code == 2
    assert result.stdout.startswith(f"{file}: ok\n")
    assert "cluster east: could not be asked for its size: no broker answered at kafka1:9092" in result.stderr
    assert json.loads(run("check", file, "--json", count_cluster=count).stdout)["not_asked"]["east"]


@pytest.mark.parametrize("command", ["check", "show"])
def test_every_mistake_is_on_stderr(command: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text("agent: {nam: x}\nclusters: []\n")
    result = run(command, path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["agent", "clusters"]


def test_mistakes_are_data_when_json_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text("clusters: []\n")
    result = run("check", path, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == [f"{path}:1:11: clusters: needs at least one entry"]


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_file_that_cannot_be_read_exits_2(command: str, tmp_path: Path) -> None:
    assert run(command, tmp_path / "missing.yml").exit_code == 2
    assert run(command, tmp_path).exit_code == 2
    assert run(command).exit_code == 2
    assert run("check", tmp_path, "--groups", "-1").exit_code == 2


def test_show_prints_defaults_as_yaml_and_json(file: Path) -> None:
    as_yaml = yaml.safe_load(run("show", file).stdout)
    assert as_yaml == json.loads(run("show", file, "--json").stdout)
    assert as_yaml["agent"] == {"name": "ops-1", "log_level": "info"}
    intervals = {"kafka": "10s", "configs": "5m", "logdirs": "1m", "quorum": "10s", "jmx": "30s"}
    assert as_yaml["clusters"][0]["intervals"] == intervals


def test_the_example_is_a_file_to_begin_with(tmp_path: Path) -> None:
    path = tmp_path / "lagwatch.yml"
    result = run("example")
    path.write_text(result.stdout)
    assert result.stdout == render_example()
    assert run("check", path).exit_code == 0
