"""`lagwatch jmx ls|get` on a real node."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.cli import Ran, lagwatch
from tests.harness.ports import closed_port

HEAP = "java.lang:type=Memory"


@pytest.fixture
def url(kafka: KafkaCluster) -> str:
    return f"127.0.0.1:{kafka.node(1).jmx_port}"


def jmx(*arguments: object) -> Ran:
    return lagwatch("jmx", *arguments)


def test_ls_prints_names_one_to_a_line(url: str) -> None:
    ran = jmx("ls", "kafka.server:type=ReplicaManager,*", "--url", url)
    assert ran.code == 0
    assert "kafka.server:type=ReplicaManager,name=LeaderCount" in ran.lines
    assert all(line.startswith("kafka.server:type=ReplicaManager,") for line in ran.lines), "no heading, nothing else"
    assert jmx("ls", "replicamanager", "--url", url, "--json").json == ran.lines, "any part of a name will do"


def test_get_prints_attributes_items_and_patterns(url: str) -> None:
    ran = jmx("get", HEAP, "HeapMemoryUsage", "--url", f"service:jmx:rmi:///jndi/rmi://{url}/jmxrmi")
    assert ran.lines[0].split() == ["BEAN", "ATTRIBUTE", "VALUE"]
    assert [line.split()[1] for line in ran.lines[1:]] == [
        f"HeapMemoryUsage.{item}" for item in ("committed", "init", "max", "used")
    ]
    (used,) = jmx("get", f"{HEAP}/HeapMemoryUsage/used", "--url", url, "--json").json
    assert (used["bean"], used["attribute"]) == (HEAP, "HeapMemoryUsage.used")
    assert used["value"] > 0
    several = jmx("get", "kafka.server:type=ReplicaManager,*", "Val*", "--url", url, "--json").json
    assert {"LeaderCount", "PartitionCount"} <= {row["bean"].rpartition("=")[2] for row in several}


def test_a_configured_broker_is_found_through_the_metadata(kafka: KafkaCluster, tmp_path: Path) -> None:
    file = tmp_path / "lagwatch.yml"
    port = kafka.node(2).jmx_port
    file.write_text(f"clusters: [{{name: east, bootstrap: '{kafka.bootstrap}', jmx: {{port: {port}}}}}]")
    (row,) = jmx("get", "kafka.server:type=app-info,id=2", "Version", "--config", file, "--node", 2, "--json").json
    assert row["value"] == kafka.version
    ran = jmx("ls", "--config", file)
    assert ran.code == 2
    assert "name a node with --node (there are: 1, 2, 3)" in ran.stderr


def test_nothing_found_exits_1_and_connection_refused_exits_2(url: str) -> None:
    assert jmx("ls", "no-such-bean", "--url", url).code == 1
    assert jmx("get", HEAP, "NoSuchAttribute", "--url", url).code == 1
    ran = jmx("ls", "--url", f"127.0.0.1:{closed_port()}")
    assert (ran.code, ran.stdout) == (2, "")
    assert "connection refused" in ran.stderr
    assert jmx("ls", "--url", "nonsense").code == 2
    assert jmx("ls").code == 2


@pytest.mark.parametrize("wrong", ["http://h:abc/jolokia", "http://h:99999/jolokia", "http://[::1/jolokia", "h:99999"])
def test_an_invalid_address_is_reported(wrong: str) -> None:
    ran = jmx("ls", "--url", wrong)
    assert ran.code == 2
    assert "Traceback" not in ran.stderr
