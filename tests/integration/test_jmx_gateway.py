"""The JVM of the JMX gateway: loopback only, protected by a token, small, and stopped with its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from collectors.jmx_beans.connection_interface import BeanQuery
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from collectors.jmx_client.jvm import GatewayOptions
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.errors import SourceError
from tests.harness.jmx import PATIENT
from tests.harness.ports import closed_port
from tests.harness.processes import is_running
from tests.harness.waiting import wait_until

UPTIME = BeanQuery("java.lang:type=Runtime", ("Uptime",))


@pytest.fixture(scope="module")
def gateway() -> Iterator[JmxGateway]:
    gateway = JmxGateway(PATIENT)
    yield gateway
    gateway.close()


def node(kafka: KafkaCluster) -> RmiAddress:
    return RmiAddress("127.0.0.1", kafka.node(1).jmx_port)


def listening(pid: int) -> set[tuple[str, int]]:
    """The addresses a process listens on, from the kernel."""
    sockets = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}  # noqa: PTH115, PTH208
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                host, port = words[1].split(":")
                found.add((host, int(port, 16)))
    return found


def test_building_it_starts_nothing() -> None:
    assert JmxGateway().pid is None


def test_it_listens_on_loopback_only_and_refuses_clients_without_a_token(
    kafka: KafkaCluster, gateway: JmxGateway
) -> None:
    gateway.connect(node(kafka)).close()
    assert gateway.pid is not None
    addresses = listening(gateway.pid)
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert addresses
    assert {host for host, _ in addresses} <= loopback
    (port,) = {port for _, port in addresses}
    stranger = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    with pytest.raises(Py4JError):
        stranger.jvm.java.lang.System.getProperty("user.home")
    stranger.close()


def test_its_memory_is_bounded(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    gateway.connect(node(kafka)).close()
    command = Path(f"/proc/{gateway.pid}/cmdline").read_text()
    assert "-Xmx128m" in command
    status = Path(f"/proc/{gateway.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident < 300 * 1024, "kB"


def test_patterns_names_and_attributes(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    connection = gateway.connect(node(kafka))
    collectors, nothing = connection.names(["java.lang:type=GarbageCollector,*", "no.such:*"])
    assert len(collectors) == 2
    assert nothing == []
    memory, missing = connection.attributes(["java.lang:type=Memory", "no.such:a=b"])
    assert memory == [
        "HeapMemoryUsage",
        "NonHeapMemoryUsage",
        "ObjectName",
        "ObjectPendingFinalizationCount",
        "Verbose",
    ]
    assert missing == []
    assert connection.read([BeanQuery("no.such:a=b", ("x",))]) == [None]
    assert connection.read([]) == []
    with pytest.raises(SourceError, match="JMX refused a pattern"):
        connection.names(["nonsense"])
    connection.close()


def test_a_query_in_jmxquerys_syntax_is_understood(gateway: JmxGateway) -> None:
    assert gateway.parse_query("java.lang:type=Memory/HeapMemoryUsage/used") == (
        "java.lang:type=Memory",
        "HeapMemoryUsage",
        "used",
    )


def test_a_port_that_is_closed_or_not_rmi_is_reported(kafka: KafkaCluster, gateway: JmxGateway) -> None:
    with pytest.raises(SourceError, match="connection refused"):
        gateway.connect(RmiAddress("127.0.0.1", closed_port()))
    with pytest.raises(SourceError, match="does not speak RMI"):
        gateway.connect(RmiAddress("127.0.0.1", kafka.node(1).port))
    with pytest.raises(SourceError, match="host not found"):
        gateway.connect(RmiAddress("no-such-host.invalid", 9999))


def test_a_port_that_never_responds_costs_the_time_limit() -> None:
    gateway = JmxGateway(GatewayOptions(deadline_seconds=2.0))
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(SourceError, match="no answer in time"):
            gateway.connect(RmiAddress("127.0.0.1", silent.getsockname()[1]))
    finally:
        gateway.close()


def test_a_java_that_does_not_start_is_reported_with_its_output(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'no room for a JVM' >&2\nexit 1\n")
    java.chmod(0o755)
    gateway = JmxGateway(GatewayOptions(java=java))
    with pytest.raises(SourceError, match=r"did not start with .*java: .no room for a JVM\""):
        gateway.connect(RmiAddress("127.0.0.1", 1))


PARENT = """
import sys, time
from collectors.jmx_client.gateway import JmxGateway
gateway = JmxGateway()
gateway.parse_query("a:b=c/d")
print(gateway.pid, flush=True)
time.sleep(600)
"""


def test_it_dies_with_the_process_that_started_it_however_that_ends() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
    wait_until(lambda: not is_running(pid), 30, "the JVM outlived its parent")


def test_after_close_nothing_runs_and_queries_are_refused(kafka: KafkaCluster) -> None:
    gateway = JmxGateway(PATIENT)
    connection = gateway.connect(node(kafka))
    assert connection.read([UPTIME])[0]
    pid = gateway.pid
    assert pid is not None
    gateway.close()
    assert not is_running(pid)
    with pytest.raises(SourceError, match="the JVM for JMX ended"):
        connection.read([UPTIME])
    with pytest.raises(SourceError, match="was closed"):
        gateway.connect(node(kafka))
