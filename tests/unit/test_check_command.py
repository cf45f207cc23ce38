"""`lagwatch check`: the report on stdout; exit 0 fine, 1 something found, 2 unreachable or bad usage."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from collectors.preflight.steps import ClusterCheck, Step
from lagwatch.cli.check_command import EPILOG, _print_check, check


def run(*arguments: object) -> Result:
    app = typer.Typer(rich_markup_mode=None)
    app.command(epilog=EPILOG)(check)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*steps: Step) -> str:
    app = typer.Typer()
    app.command()(
        lambda: _print_check(
            ClusterCheck("east", ("kafka1:9092",), "PLAINTEXT", steps, reached_brokers=True), first=True
        )
    )
    return CliRunner().invoke(app, []).stdout


def test_help_ends_with_an_example() -> None:
    assert run("--help").stdout.rstrip().endswith("Example: lagwatch check lagwatch.yml --cluster east")


def test_a_file_or_a_bootstrap_address_is_needed_and_not_both(tmp_path: Path) -> None:
    assert run().exit_code == 2
    assert run(tmp_path / "lagwatch.yml", "--bootstrap", "kafka1:9092").exit_code == 2


def test_a_configuration_that_cannot_be_used_exits_2_with_its_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "lagwatch.yml"
    file.write_text("clusters: []\n")

    result = run(file, "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "exit_code": 2,
        "problems": [f"{file}:1:11: clusters: needs at least one entry"],
    }
    assert run(tmp_path / "missing.yml").exit_code == 2
    assert "has no port" in run("--bootstrap", "kafka1").stderr


def test_an_unknown_cluster_exits_2_with_the_names_there_are(tmp_path: Path) -> None:
    file = tmp_path / "lagwatch.yml"
    file.write_text("clusters: [{name: east, bootstrap: 'kafka1:9092'}]\n")

    result = run(file, "--cluster", "west")

    assert result.exit_code == 2
    assert 'no cluster "west" in the configuration (there are: east)' in result.stderr


def test_a_time_without_a_unit_is_refused() -> None:
    assert "without a unit (try 5s)" in run("--bootstrap", "127.0.0.1:1", "--timeout", "5").stderr
    assert run("--bootstrap", "127.0.0.1:1", "--timeout", "0s").exit_code == 2


def test_each_cluster_is_checked_even_if_others_fail(tmp_path: Path) -> None:
    file = tmp_path / "lagwatch.yml"
    file.write_text(
        "clusters:\n"
        "  - {name: east, bootstrap: ['127.0.0.1:1']}\n"
        "  - {name: west, bootstrap: ['nowhere.invalid:9092']}\n"
    )

    result = run(file, "--timeout", "2s", "--json")

    east, west = json.loads(result.stdout)["clusters"]
    assert result.exit_code == east["exit_code"] == west["exit_code"] == 2
    assert {step["step"]: step["message"] for step in east["steps"]}["TCP"] == "connection refused"
    assert {step["step"]: step["message"] for step in west["steps"]}["TCP"] == "DNS failed for every bootstrap address"
    only = run(file, "--cluster", "east", "--timeout", "2s")
    assert only.stdout.splitlines()[-1] == "cluster east: could not be queried"
    assert "not tried  TLS, login, broker, DescribeCluster, Metadata," in only.stdout


def test_an_action_is_printed_once() -> None:
    steps = [Step(name, "", "failed", "refused", "kafka-acls.sh ...", "Describe on Topic", name) for name in ("A", "B")]

    text = printed(*steps)

    assert text.count("do: kafka-acls.sh ...") == 1
    assert "needs Describe on Topic; without it: A" in text
    assert "needs Describe on Topic; without it: B" in text
    assert text.splitlines()[-1] == "cluster east: 2 findings"


def test_control_characters_in_names_are_escaped() -> None:
    text = printed(Step("OffsetFetch", "", "failed", "refused for \x1b[2Jgroup\n"))

    assert "\x1b" not in text
    assert r"refused for \x1b[2Jgroup\n" in text
