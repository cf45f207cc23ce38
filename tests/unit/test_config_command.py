"""`lagwatch config`: data on stdout, messages on stderr; exit 0 valid, 1 a problem, 2 an unreadable file or cluster."""

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
from tests.harness.cli import lagwatch

GOOD = "agent: {name: ops-1}\nclusters:\n  - name: east\n    bootstrap: [kafka1:9092]\n"
TWO = GOOD + "  - name: west\n    bootstrap: [kafka2:9092]\n"
LARGE = ("--groups", 1000, "--group-partitions", 100_000, "--topics", 1000, "--partitions", 10_000, "--brokers", 6)


def refuse_queries(cluster: ClusterSettings) -> Counts:
    raise AssertionError(f"cluster {cluster.name} was queried")


def run(*arguments: object, count_cluster: CountCluster = refuse_queries) -> Result:
    """Run a command that must not query a cluster, unless the test passes a function that answers for it."""
    result = CliRunner().invoke(build_config_app(count_cluster), [str(argument) for argument in arguments])
    if isinstance(result.exception, AssertionError):
        raise result.exception
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lagwatch.yml"
    path.write_text(GOOD)
    return path


def test_check_reads_the_file_alone(file: Path) -> None:
    result = run("check", file)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:1] + result.stdout.splitlines()[2:] == [
        f"{file}: ok",
        "cluster east: kafka1:9092, PLAINTEXT, polled every 10s",
        "cluster east: each 1,000 group-partitions write about 178.8 MiB a day, 28.1 MiB kept for 1d",
        "sizes: not estimated; add --sizes to query the clusters, or give --group-partitions N",
    ]
    assert result.stderr == ""


def test_check_of_the_file_alone_is_json_too(file: Path) -> None:
    result = run("check", file, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (found["ok"], found["problems"], found["clusters"]) == (True, [], ["east"])
    assert (found["counts"], found["failures"], found["sizes"]) == ({}, {}, None)
    assert found["per_1000_group_partitions"]["kept_bytes"] > 2**20


def test_check_with_counts_prints_a_table(file: Path) -> None:
    result = run("check", file, "--groups", 10, "--group-partitions", 1000, "--partitions", 100, "--brokers", 3)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[3].split() == ["CLUSTER", "TABLE", "SERIES", "ROWS/DAY", "BYTES/DAY", "KEPT", "1d"]
    assert lines[4].split()[:4] == ["east", "consumer_lag", "1,000", "8,640,000"]
    assert lines[-2].split()[:2] == ["total", "-"]
    assert lines[-1].startswith("journal: a history of 1d needs about ")
    assert lines[-1].endswith(": it fits")


def test_a_history_that_does_not_fit_is_a_problem(file: Path) -> None:
    result = run("check", file, *LARGE, "--group-partitions", "200000")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{file}: valid, but journal.history does not fit journal.max_size\n")
    assert "it does not fit; set journal.max_size: 8GiB, or history: 6h" in result.stderr


def test_sizes_queries_every_cluster(file: Path) -> None:
    file.write_text(TWO)
    queried: list[str] = []

    def count(cluster: ClusterSettings) -> Counts:
        queried.append(cluster.name)
        return Counts(groups=7, group_partitions=70)

    result = run("check", file, "--sizes", "--json", count_cluster=count)
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert queried == ["east", "west"]
    assert [found["counts"][name]["groups"] for name in queried] == [7, 7]
    assert found["sizes"]["fits"] is True
    assert {table["table"] for table in found["sizes"]["tables"]} >= {"consumer_lag", "consumer_group", "agent"}


def test_sizes_of_a_cluster_that_cannot_be_queried_exits_2(file: Path) -> None:
    file.write_text(TWO)

    def count(cluster: ClusterSettings) -> Counts:
        if cluster.name == "east":
            raise SourceError(f"no broker answered at {cluster.bootstrap[0]}")
        return Counts(groups=1, group_partitions=6)

    result = run("check", file, "--sizes", count_cluster=count)
    assert result.exit_code == 2
    assert result.stdout.startswith(f"{file}: ok\n")
    assert "\nwest     consumer_lag " in result.stdout
    assert result.stderr.splitlines() == [
        "cluster east: no sizes: no broker answered at kafka1:9092",
        "run `lagwatch check` to find out why, or give --group-partitions and the other counts",
    ]
    found = json.loads(run("check", file, "--sizes", "--json", count_cluster=count).stdout)
    assert found["failures"] == {"east": "no broker answered at kafka1:9092"}


def test_sizes_and_counts_exclude_each_other(file: Path) -> None:
    result = run("check", file, "--sizes", "--groups", "1")
    assert result.exit_code == 2
    assert "give either --sizes or counts, not both" in result.stderr


def test_the_installed_command_needs_no_cluster_unless_sizes_is_given(tmp_path: Path) -> None:
    path = tmp_path / "lagwatch.yml"
    path.write_text("clusters:\n  - name: east\n    bootstrap: 127.0.0.1:1\n")
    checked = lagwatch("config", "check", path)
    assert (checked.code, checked.stderr) == (0, "")
    queried = lagwatch("config", "check", path, "--sizes")
    assert queried.code == 2
    assert queried.stderr.startswith("cluster east: no sizes: ")
    assert "connection refused" in queried.stderr


@pytest.mark.parametrize("command", ["check", "show"])
def test_every_mistake_is_on_stderr(command: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text("agent: {nam: x}\nclusters: []\n")
    result = run(command, path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["agent", "clusters"]


def test_mistakes_are_data_with_json(tmp_path: Path) -> None:
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


def test_json_is_ascii_in_any_locale(file: Path) -> None:
    file.write_text(GOOD + "    groups: {include: [z\u00fcrich]}\n")
    printed = run("show", file, "--json").stdout
    assert printed.isascii()
    assert json.loads(printed)["clusters"][0]["groups"]["include"] == ["z\u00fcrich"]


def test_the_example_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "lagwatch.yml"
    result = run("example")
    path.write_text(result.stdout)
    assert result.stdout == render_example()
    assert run("check", path).exit_code == 0
