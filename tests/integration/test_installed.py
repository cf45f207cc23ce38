"""lagwatch as users install it: the built wheel in an empty virtual environment, run outside the checkout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from lagwatch.cli.app import COMMANDS
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.influx import per_series, running_influxd
from tests.harness.installed import ROOT, InstalledLagwatch, install

PACKAGES = ("lagwatch", "collectors", "spark")
DATA = ("rules", "grafana/README.md", "grafana/compose.yml", "grafana/dashboards", "grafana/provisioning")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledLagwatch:
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def example(installed: InstalledLagwatch) -> str:
    """The configuration that `lagwatch config example` prints."""
    ran = installed.run("config", "example")
    assert (ran.code, ran.stderr) == (0, "")
    return ran.stdout


def test_the_wheel_has_every_file_of_the_packages_and_their_data(installed: InstalledLagwatch) -> None:
    expected = {str(path.relative_to(ROOT)) for package in PACKAGES for path in files_in(ROOT / package)}
    expected |= {f"lagwatch/data/{path.relative_to(ROOT)}" for part in DATA for path in files_in(ROOT / part)}
    with ZipFile(installed.wheel) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert {"collectors/kafka_client/schemas/ConsumerGroupDescribeRequest.json", "lagwatch/py.typed"} <= packed


def test_it_is_not_the_checkout_that_runs(installed: InstalledLagwatch) -> None:
    folders = installed.python("import lagwatch, collectors; print(lagwatch.__file__, collectors.__file__)")
    assert all(folder.startswith(f"{installed.venv}/lib/") for folder in folders.split())


def test_only_locked_versions_are_installed(installed: InstalledLagwatch) -> None:
    locked = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text().split())
    found = {name: version for name, version in installed.packages().items() if name not in {"pip", "setuptools"}}
    del found["lagwatch"]
    assert found == {name: locked.get(name) for name in found}
    assert {"kafka-python", "pyarrow", "typer"} <= set(found)
    assert not {"pytest", "pyspark"} & set(found)


def test_help_lists_every_command(installed: InstalledLagwatch) -> None:
    ran = installed.run("--help")
    assert (ran.code, ran.stderr) == (0, "")
    assert set(re.findall(r"(?m)^  ([a-z]+)  ", ran.stdout)) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_imported(installed: InstalledLagwatch, command: str) -> None:
    ran = installed.run(command, "--help")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"Usage: lagwatch {command} ")


def test_its_example_is_valid_where_no_cluster_can_be_reached(installed: InstalledLagwatch, example: str) -> None:
    file = installed.folder / "example.yml"
    file.write_text(example)
    ran = installed.run("config", "check", "example.yml")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.lines[0] == "example.yml: ok"


@pytest.fixture(scope="module")
def filled(kafka: KafkaCluster) -> Iterator[KafkaCluster]:
    """The shared cluster with a group that has read 3 of 10 records."""
    kafka.create_topic("installed-orders", partitions=1)
    kafka.produce("installed-orders", {0: 10})
    kafka.commit("installed-group", {("installed-orders", 0): 3})
    yield kafka
    kafka.delete_topic("installed-orders")


def test_its_example_runs_once_over_a_cluster(installed: InstalledLagwatch, example: str, filled: KafkaCluster) -> None:
    file = installed.folder / "once.yml"
    file.write_text(with_bootstrap(example, filled))
    ran = installed.run("run", "--once", "once.yml")
    assert ran.code == 0, ran.stderr
    journal = installed.folder / "lagwatch-data" / "journal.db"
    lag = installed.run("lag", "--journal", journal, "--group", "installed-group", "--json").json
    assert [(group["group"], group["total_lag"]) for group in lag["groups"]] == [("installed-group", 7)]


def test_the_readme_configuration_runs_once(installed: InstalledLagwatch, filled: KafkaCluster) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    with running_influxd() as influx:
        addresses = {"http://influxdb:8086": influx.url, "ops": influx.org, "kafka": influx.bucket}
        for of_readme, here in addresses.items():
            text = re.sub(rf"(?m): {of_readme}$", f": {here}", text)
        text = text.replace("/var/lib/lagwatch/journal.db", "readme-data/journal.db")
        (installed.folder / "readme.yml").write_text(with_bootstrap(text, filled))
        ran = installed.run("run", "--once", "readme.yml", env={"INFLUX_TOKEN": influx.token})
        assert ran.code == 0, ran.stderr
        assert per_series(influx, "consumer_group", "total_lag", "sum")["east", "installed-group"] == 7


def with_bootstrap(config: str, cluster: KafkaCluster) -> str:
    """The configuration with the cluster's address in place of the sample's."""
    changed, count = re.subn(r"(?m)^( +bootstrap: )\S.*?(?= +#|$)", rf"\g<1>{cluster.bootstrap}", config)
    assert count == 1, config
    return changed


def files_in(path: Path) -> list[Path]:
    """The file, or all files below the folder, but for what Python caches."""
    found = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return [file for file in found if "__pycache__" not in file.parts]
