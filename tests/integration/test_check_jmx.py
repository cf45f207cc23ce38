"""`lagwatch check` and JMX: healthy nodes, closed ports, ports of other nodes, and stubs with a wrong host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import find_jar_path

from collectors.jmx_client.endpoints import Endpoint
from collectors.preflight.jmx import jmx_answer_step, jmx_failure_step
from lagwatch.demo.java import find_java
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.kafka_jvm import jmx_options
from tests.harness.cli import lagwatch
from tests.harness.ports import closed_port, server_port


@contextmanager
def jvm_with_jmx(hostname: str) -> Iterator[int]:
    """A JVM that is no Kafka, whose RMI stub names that host; the port of its JMX."""
    port = server_port()
    options = [f"-Djava.rmi.server.hostname={hostname}", *jmx_options(port)[:-1]]
    command = [str(find_java()), "-Xmx32m", *options, "-cp", find_jar_path()]
    process = subprocess.Popen(
        [*command, "py4j.GatewayServer", "--die-on-broken-pipe", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "it prints a port once it is up, and JMX is before that"
        yield port
    finally:
        process.kill()
        process.communicate()


def jmx_steps(kafka: KafkaCluster, folder: Path, jmx: str) -> tuple[int, dict[str, dict[str, Any]]]:
    file = folder / "lagwatch.yml"
    file.write_text(f"clusters: [{{name: east, bootstrap: '{kafka.bootstrap}', jmx: {{{jmx}}}}}]")
    ran = lagwatch("check", file, "--json", timeout=120)
    (cluster,) = ran.json["clusters"]
    return ran.code, {step["target"]: step for step in cluster["steps"] if step["step"] == "jmx"}


def test_nodes_that_respond_are_listed_with_roles_and_others_with_the_next_step(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    right, other, closed = kafka.node(1).jmx_port, kafka.node(3).jmx_port, closed_port()
    code, steps = jmx_steps(
        kafka, tmp_path, f"brokers: {{1: '127.0.0.1:{right}', 2: '127.0.0.1:{other}', 3: '127.0.0.1:{closed}'}}"
    )
    assert code == 1
    fine, wrong, gone = (steps[f"broker {n} at 127.0.0.1:{port}"] for n, port in ((1, right), (2, other), (3, closed)))
    assert (fine["state"], fine["message"]) == ("ok", "answers as broker and controller")
    assert (wrong["state"], wrong["message"]) == ("warning", "this is node 3, not 2")
    assert (gone["state"], gone["message"]) == ("failed", "connection refused")
    assert "JMX_PORT" in gone["action"]


def test_a_stub_that_names_another_host_is_reported(kafka: KafkaCluster, tmp_path: Path) -> None:
    with jvm_with_jmx("no-such-host.invalid") as lost, jvm_with_jmx("localhost") as same:
        _, steps = jmx_steps(kafka, tmp_path, f"brokers: {{1: '127.0.0.1:{lost}', 2: '127.0.0.1:{same}'}}")
    failed = steps[f"broker 1 at 127.0.0.1:{lost}"]
    assert failed["state"] == "failed"
    assert failed["message"].startswith(
        f"its RMI stub names another host, no-such-host.invalid:{lost}, which cannot be reached"
    )
    assert "-Djava.rmi.server.hostname=127.0.0.1" in failed["action"]
    assert (
        steps[f"broker 2 at 127.0.0.1:{same}"]["message"]
        == "the JVM that answers is not a Kafka node, or is still starting"
    )


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("JMX refused the login: ...", "check username and password_file in clusters[].jmx"),
        (
            "its certificate is not trusted: ...",
            "set jmx.ca_file to the CA that signed the node's JMX certificate",
        ),
        ("the port does not speak RMI: ...", "check port and registry_tls in clusters[].jmx, or set via: jolokia"),
        ("no Java for JMX: ...", "check jmx.java"),
        ("something else", "check the node's log"),
    ],
)
def test_the_next_step_follows_from_the_reason(reason: str, advice: str) -> None:
    assert jmx_failure_step(Endpoint("broker 1", 1, "a", 1), None, reason).action == advice


def test_a_stub_that_leads_elsewhere_and_answers_is_a_warning() -> None:
    step = jmx_answer_step(Endpoint("broker 1", 1, "kafka1", 9999), "10.0.0.5:9999", ["broker"], ["1"])
    assert (step.state, step.message) == ("warning", "answers, but its RMI stub names another host: 10.0.0.5:9999")
    assert "hostname=kafka1" in step.action
