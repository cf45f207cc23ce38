"""The Kafka launcher: a real cluster starts, can be broken in every way the tests need, recovers, and cleans up."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from lagwatch.demo.kafka_access import CLUSTER_RESOURCE, AclBinding
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.kafka_layout import CONTROLLER, port_chooser
from lagwatch.demo.kafka_node import wait_until
from lagwatch.demo.kafka_probe import responds
from lagwatch.demo.kafka_security import ClusterSecurity
from lagwatch.errors import LagwatchError
from tests.harness.kafka import running_kafka
from tests.harness.processes import is_running


def test_records_and_commits_are_read_back(kafka: KafkaCluster) -> None:
    kafka.create_topic("read-back", partitions=2, replication=3, config={"retention.ms": "60000"})

    kafka.produce("read-back", {0: 3, 1: 200}, value=b"hello", timestamp_ms=1_700_000_000_000)
    kafka.commit("read-back-group", {("read-back", 0): 1, ("read-back", 1): 150})

    assert kafka.committed("read-back-group") == {("read-back", 0): 1, ("read-back", 1): 150}
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    consumer.assign([TopicPartition("read-back", 0)])
    records = [next(consumer) for _ in range(3)]
    consumer.close()
    assert {(record.value, record.timestamp) for record in records} == {(b"hello", 1_700_000_000_000)}


def test_replicas_are_where_the_assignment_says(kafka: KafkaCluster) -> None:
    kafka.create_topic("assigned", assignment={0: [3, 1], 1: [2, 3]})

    with kafka.admin() as admin:
        [topic] = admin.describe_topics(["assigned"])
    assert {part["partition_index"]: part["replica_nodes"] for part in topic["partitions"]} == {0: [3, 1], 1: [2, 3]}


def test_a_deleted_topic_is_gone(kafka: KafkaCluster) -> None:
    kafka.create_topic("short-lived")

    kafka.delete_topic("short-lived")

    with kafka.admin() as admin:
        assert "short-lived" not in admin.list_topics()


def test_kafkas_own_tool_sees_the_group(kafka: KafkaCluster) -> None:
    kafka.create_topic("tooled")
    kafka.produce("tooled", {0: 7})
    kafka.commit("tooled-group", {("tooled", 0): 2})

    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    done = kafka.tool(command, "--describe", "--group", "tooled-group")

    assert done.returncode == 0
    assert ["tooled-group", "tooled", "0", "2", "7", "5"] in [line.split()[:6] for line in done.stdout.splitlines()]


def test_jmx_of_every_node_accepts_connections_on_loopback(kafka: KafkaCluster) -> None:
    listening = _listening_addresses()

    assert {("127.0.0.1", node.jmx_port) for node in kafka.nodes.values()} <= listening


def test_all_sockets_of_a_node_listen_on_loopback_only(kafka: KafkaCluster) -> None:
    ours = {port for node in kafka.nodes.values() for port in (*node.plan.ports.values(), node.jmx_port)}

    assert {address for address, port in _listening_addresses() if port in ours} == {"127.0.0.1"}


def test_a_killed_broker_is_missed_and_comes_back_with_its_data(kafka: KafkaCluster) -> None:
    kafka.create_topic("on-two", assignment={0: [2]})
    kafka.produce("on-two", {0: 5})
    first_pid = kafka.node(2).pid

    kafka.node(2).kill()

    assert not is_running(first_pid)
    kafka.create_topic("without-two", partitions=3, replication=2)  # waits until the others have noticed
    assert kafka.node(1).known_brokers() == frozenset({1, 3})
    with pytest.raises(LagwatchError, match="node 2: it is not running"):
        kafka.node(2).pause()

    kafka.node(2).start()

    assert kafka.node(2).pid != first_pid
    kafka.produce("on-two", {0: 1})
    assert _end_offset(kafka, "on-two") == 6


def test_a_paused_broker_accepts_connections_but_never_responds(kafka: KafkaCluster) -> None:
    node = kafka.node(3)

    node.pause()

    assert node.running
    assert not responds(node.port, timeout=0.3)
    kafka.wait_for_brokers({1, 2}, seconds=30)

    node.resume()

    kafka.wait_for_brokers({1, 2, 3}, seconds=30)


def test_a_stopped_broker_leaves_in_order_and_starts_again(kafka: KafkaCluster) -> None:
    node = kafka.node(1)
    log_before = node.log_file.stat().st_size

    node.restart()

    assert "shut down completed" in node.log_file.read_text()[log_before:]
    assert set(kafka.live_brokers) == {1, 2, 3}
    with pytest.raises(LagwatchError, match="node 1 is already running"):
        node.launch()


def test_roles_can_be_separate(start_kafka: Callable[..., KafkaCluster]) -> None:
    kafka = start_kafka(
        1, controllers=3, settings={"offsets.topic.num.partitions": "2"}, settings_of={1: {"broker.rack": "r"}}
    )

    assert {node.id: node.roles for node in kafka.nodes.values()} == {
        1: ("broker",),
        **dict.fromkeys((101, 102, 103), ("controller",)),
    }
    kafka.node(102).kill()  # two of three are still a quorum
    kafka.create_topic("separate")
    kafka.commit("separate-group", {("separate", 0): 0})
    with kafka.admin() as admin:
        [offsets] = admin.describe_topics(["__consumer_offsets"])
        [broker] = admin.describe_cluster()["brokers"]
    assert len(offsets["partitions"]) == 2
    assert broker["rack"] == "r"
    kafka.node(102).start()
    assert responds(kafka.node(102).plan.ports[CONTROLLER])


@pytest.mark.parametrize("version", ["4.1.2", "3.9.2"])
def test_older_versions_start_too(version: str, start_kafka: Callable[..., KafkaCluster]) -> None:
    kafka = start_kafka(1, version=version)

    kafka.create_topic("old")
    kafka.produce("old", {0: 2})
    kafka.commit("old-group", {("old", 0): 1})

    assert kafka.committed("old-group") == {("old", 0): 1}
    assert f"Kafka version: {version}" in kafka.node(1).log_since_start()


def test_a_node_that_cannot_start_says_why_and_leaves_nothing() -> None:
    cluster = KafkaCluster(1, settings={"num.io.threads": "many"})

    with pytest.raises(LagwatchError, match=r"node 1 .* ended with exit code 1(.|\n)*num\.io\.threads"), cluster:
        pytest.fail("it started")

    assert not is_running(cluster.node(1).pid)
    with pytest.raises(LagwatchError, match="not running"):
        _ = cluster.folder


def test_ports_that_are_taken_after_all_are_replaced() -> None:
    free = port_chooser()
    with socket.create_server(("127.0.0.1", 0)) as thief:
        taken = thief.getsockname()[1]
        broker_taken, jmx_taken = [taken, free(), free()], [free(), free(), taken]  # broker, controller, JMX
        planned = iter([*broker_taken, *jmx_taken])

        with KafkaCluster(1, choose_port=lambda: next(planned, None) or free()) as cluster:
            used = {*cluster.node(1).plan.ports.values(), cluster.node(1).jmx_port}

    assert not used & {*broker_taken, *jmx_taken}


def test_nothing_is_left_when_the_body_raises() -> None:
    cluster = KafkaCluster(1)
    left: list[Path] = []

    with pytest.raises(ZeroDivisionError), cluster:
        _fail_with_a_paused_node(cluster, left)

    assert not is_running(cluster.node(1).pid)
    assert [folder.exists() for folder in left] == [False]


def _fail_with_a_paused_node(cluster: KafkaCluster, left: list[Path]) -> None:
    left.append(cluster.folder)
    cluster.node(1).pause()
    _ = 1 / 0


_HOLDER = """
import time
from lagwatch.demo.kafka_cluster import KafkaCluster
with KafkaCluster(1) as cluster:
    print(cluster.node(1).pid, cluster.folder, flush=True)
    time.sleep(600)
"""


def test_nothing_is_left_when_the_holder_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pid, folder = holder.stdout.readline().split()
        assert is_running(int(pid))

        holder.send_signal(signal.SIGKILL)

        assert wait_until(lambda: not is_running(int(pid)), seconds=10)
        assert wait_until(lambda: not Path(folder).exists(), seconds=10)


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    """One node that requires authentication; PLAIN knows ann, SCRAM knows bob."""
    with running_kafka(
        1, secure=ClusterSecurity(plain_users={"ann": 'quo"te\\d'}, certificate_name="carol")
    ) as cluster:
        cluster.create_topic("guarded")
        cluster.add_user("bob", "secret")
        yield cluster


def test_a_right_password_and_authority_let_in(secured: KafkaCluster) -> None:
    for principal in ("User:ann", "User:bob", "User:CN=carol"):
        secured.add_acl(AclBinding(principal, "DESCRIBE", "TOPIC", "guarded"))
    files = {"ssl_cafile": str(secured.ca_file)}
    bob = {"sasl_plain_username": "bob", "sasl_plain_password": "secret"}
    ann = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "ann", "sasl_plain_password": 'quo"te\\d'}
    carol = {"ssl_certfile": str(secured.tls.client_certificate), "ssl_keyfile": str(secured.tls.client_key)}

    assert _topics(secured, "SASL_SSL", files | bob | {"sasl_mechanism": "SCRAM-SHA-256"}) == ["guarded"]
    assert _topics(secured, "SASL_SSL", files | bob | {"sasl_mechanism": "SCRAM-SHA-512"}) == ["guarded"]
    assert _topics(secured, "SASL_PLAINTEXT", bob | {"sasl_mechanism": "SCRAM-SHA-512"}) == ["guarded"]
    assert _topics(secured, "SASL_SSL", files | ann) == ["guarded"]
    assert _topics(secured, "SSL", files | carol) == ["guarded"]


def test_a_wrong_password_authority_or_certificate_is_refused(secured: KafkaCluster) -> None:
    right, wrong = {"ssl_cafile": str(secured.ca_file)}, {"ssl_cafile": str(secured.wrong_ca_file)}
    bob = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "bob", "sasl_plain_password": "secret"}
    ann = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "ann", "sasl_plain_password": "wrong"}
    attempts = {
        "wrong SCRAM password": ("SASL_SSL", right | bob | {"sasl_plain_password": "wrong"}),
        "wrong PLAIN password": ("SASL_SSL", right | ann),
        "wrong authority": ("SASL_SSL", wrong | bob),
        "no certificate": ("SSL", right),
    }

    clients = {what: _start_client(secured, *attempt) for what, attempt in attempts.items()}

    said = {what: client.communicate(timeout=60)[0] for what, client in clients.items()}
    assert {what: client.returncode for what, client in clients.items()} == dict.fromkeys(attempts, 1)
    assert "CERTIFICATE_VERIFY_FAILED" in said["wrong authority"]
    # Of a refused password the client often says no more than "socket disconnected": the broker knows better.
    log = secured.node(1).log_since_start()
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in log
    assert "Invalid username or password" in log
    assert re.search(r"thread-1-SSL-SSL-\d+\].* \(SSL handshake failed\)", log)


def test_access_is_given_and_taken_by_acls(secured: KafkaCluster) -> None:
    secured.add_user("dave", "first")
    secured.add_user("dave", "second")  # a changed password is in force at once
    dave = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "dave", "sasl_plain_password": "second"}
    assert _topics(secured, "SASL_PLAINTEXT", dave) == []

    secured.add_acl(AclBinding("User:dave", "DESCRIBE", "TOPIC", "guar", pattern="PREFIXED"))
    secured.add_acl(AclBinding("User:dave", "DESCRIBE", "CLUSTER", CLUSTER_RESOURCE))
    assert _topics(secured, "SASL_PLAINTEXT", dave) == ["guarded"]

    secured.remove_acl(AclBinding("User:dave", "DESCRIBE", "TOPIC", "guar", pattern="PREFIXED"))
    assert _topics(secured, "SASL_PLAINTEXT", dave) == []

    with pytest.raises(LagwatchError, match="it does not exist"):
        secured.remove_acl(AclBinding("User:dave", "DESCRIBE", "TOPIC", "guar", pattern="PREFIXED"))
    secured.remove_user("dave")


def test_an_open_cluster_has_no_certificates(kafka: KafkaCluster) -> None:
    with pytest.raises(LagwatchError, match=r"secure=Security\(\)"):
        _ = kafka.ca_file


def _end_offset(kafka: KafkaCluster, topic: str) -> int:
    consumer = KafkaConsumer(bootstrap_servers=list(kafka.live_brokers.values()))
    place = TopicPartition(topic, 0)
    end = consumer.end_offsets([place])[place]
    consumer.close()
    return int(end)


def _topics(kafka: KafkaCluster, listener: str, options: Mapping[str, str]) -> list[str]:
    client = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_of(listener), security_protocol=listener, **options)
    try:
        return list(client.list_topics())
    finally:
        client.close()


# A client that fails to connect leaves a thread behind that goes on trying: it gets a process of its own.
_CLIENT = """
import json, logging, os, sys
from kafka import KafkaAdminClient
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
try:
    KafkaAdminClient(bootstrap_timeout_ms=2000, **json.loads(sys.argv[1]))
except Exception as error:
    print(repr(error), flush=True)
    os._exit(1)
os._exit(0)
"""


def _start_client(kafka: KafkaCluster, listener: str, options: Mapping[str, str]) -> subprocess.Popen[str]:
    where = {"bootstrap_servers": kafka.bootstrap_of(listener), "security_protocol": listener}
    command = [sys.executable, "-c", _CLIENT, json.dumps(where | dict(options))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _listening_addresses() -> set[tuple[str, int]]:
    """What listens on this machine for IPv4, and for IPv6 as the address "::"."""
    found: set[tuple[str, int]] = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, port = line.split()[1].split(":")
        if line.split()[3] == "0A":
            found.add((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
    for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]:
        if line.split()[3] == "0A":
            found.add(("::", int(line.split()[1].split(":")[1], 16)))
    return found
