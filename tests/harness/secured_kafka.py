"""A cluster with authentication, and a user with exactly the ACLs of docs/acls.md."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer

from lagwatch.demo.kafka_access import CLUSTER_RESOURCE, AclBinding
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.kafka_layout import CONTROLLER
from lagwatch.demo.kafka_node import wait_until
from lagwatch.demo.kafka_security import ClusterSecurity
from tests.harness.kafka import running_kafka

USER, PASSWORD, WRONG_PASSWORD = "lagwatch", "c0rrect-h0rse", "wr0ng-h0rse"
PRINCIPAL = f"User:{USER}"
CLUSTER_ACL = ("DESCRIBE", "CLUSTER", CLUSTER_RESOURCE)
GROUP_ACL = ("DESCRIBE", "GROUP", "*")
TOPIC_ACL = ("DESCRIBE", "TOPIC", "*")
CONFIGS_ACL = ("DESCRIBE_CONFIGS", "TOPIC", "*")
COMMITS_COMMAND = 2  # position on the page of the command for `commits: topic`
COMMITS_ACL = ("READ", "TOPIC", "__consumer_offsets")
NOBODY = "127.0.0.1:1"
_LONGER_THAN_ANY_RUN = 7200
ACLS_PAGE = Path(__file__).parents[2] / "docs" / "acls.md"


@contextmanager
def secured_kafka() -> Iterator[KafkaCluster]:
    """One node with two topics, an idle group, a group with a member of each protocol, and the documented ACLs."""
    with running_kafka(1, secure=ClusterSecurity()) as cluster:
        _advertise_wrongly(cluster, "SASL_PLAINTEXT")
        cluster.create_topic("orders", partitions=2, config={"retention.ms": "3600000"})
        cluster.create_topic("refunds")
        cluster.produce("orders", {0: 10, 1: 5})
        cluster.produce("refunds", {0: 4})
        cluster.commit("billing", {("orders", 0): 3, ("orders", 1): 5, ("refunds", 0): 1})
        cluster.add_user(USER, PASSWORD)
        for command in documented_commands()[:2]:
            done = cluster.tool("org.apache.kafka.tools.AclCommand", *command)
            assert done.returncode == 0, done.stderr
        with _classic_member(cluster), _new_member(cluster):
            yield cluster


def documented_commands() -> list[list[str]]:
    """The arguments of kafka-acls.sh on the page, without address and administrator login."""
    lines = [line for line in ACLS_PAGE.read_text().splitlines() if line.startswith("kafka-acls.sh")]
    return [shlex.split(line)[5:] for line in lines]


def _advertise_wrongly(cluster: KafkaCluster, listener: str) -> None:
    """Make the node advertise a port without a listener: the classic mistake."""
    node = cluster.node(1)
    where = {name: f"127.0.0.1:{port}" for name, port in node.plan.ports.items() if name != CONTROLLER}
    advertised = ",".join(f"{name}://{address}" for name, address in (where | {listener: NOBODY}).items())
    settings = node.properties_file.read_text().splitlines()
    kept = [line for line in settings if not line.startswith("advertised.listeners")]
    node.properties_file.write_text("\n".join([*kept, f"advertised.listeners={advertised}", ""]))
    node.restart()


@contextmanager
def _classic_member(cluster: KafkaCluster) -> Iterator[None]:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        group_id="classic",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_interval_ms=_LONGER_THAN_ANY_RUN * 1000,
    )
    try:
        # Longer than joining takes: kafka-python drops an assignment that arrives between two polls.
        assert consumer.poll(timeout_ms=120_000)
        yield
    finally:
        consumer.close()


@contextmanager
def _new_member(cluster: KafkaCluster) -> Iterator[None]:
    """A member by Kafka's own consumer, since kafka-python lacks the new protocol. It ends after one record."""
    consumer = ("--topic", "refunds", "--group", "new", "--max-messages", "1")
    new = ("--command-property", "group.protocol=consumer")
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    thread = threading.Thread(
        target=lambda: cluster.tool(tool, *consumer, *new, timeout=_LONGER_THAN_ANY_RUN), daemon=True
    )
    thread.start()
    try:
        with cluster.admin() as admin:
            assert wait_until(lambda: ("new", "Stable") in _groups(admin), 60)
        yield
    finally:
        cluster.produce("refunds", {0: 1})
        thread.join(30)


def _groups(admin: Any) -> set[tuple[str, str]]:
    return {(group["group_id"], group["group_state"]) for group in admin.list_groups()}


@contextmanager
def without(cluster: KafkaCluster, acl: tuple[str, str, str]) -> Iterator[None]:
    """Remove one ACL for the duration of a `with` block."""
    cluster.remove_acl(AclBinding(PRINCIPAL, *acl))
    try:
        yield
    finally:
        cluster.add_acl(AclBinding(PRINCIPAL, *acl))


@contextmanager
def reading_commits(cluster: KafkaCluster) -> Iterator[None]:
    """Grant what `commits: topic` needs with the documented command, for the duration of a `with` block."""
    done = cluster.tool("org.apache.kafka.tools.AclCommand", *documented_commands()[COMMITS_COMMAND])
    assert done.returncode == 0, done.stderr
    cluster.add_acl(AclBinding(PRINCIPAL, *COMMITS_ACL))  # the same ACL again: waits until every broker has applied it
    try:
        yield
    finally:
        cluster.remove_acl(AclBinding(PRINCIPAL, *COMMITS_ACL))


def write_config(folder: Path, kafka: KafkaCluster, security: dict[str, Any], listener: str, **more: Any) -> Path:
    """A configuration of one cluster, `east`, at a listener; `more` are further keys of the cluster."""
    cluster = {"name": "east", "bootstrap": kafka.bootstrap_of(listener), "security": security} | more
    path = folder / "lagwatch.yml"
    path.write_text(json.dumps({"clusters": [cluster]}))
    return path


def with_password(
    folder: Path,
    kafka: KafkaCluster,
    *,
    listener: str = "SASL_SSL",
    password: str = PASSWORD,
    ca_file: Path | None = None,
    **more: Any,
) -> Path:
    """The configuration of the documented user, correct by default."""
    (folder / "password").write_text(password)
    (folder / "password").chmod(0o600)
    sasl = {"mechanism": "SCRAM-SHA-512", "username": USER, "password_file": "password"}
    security: dict[str, Any] = {"protocol": listener, "sasl": sasl}
    if listener == "SASL_SSL":
        security["tls"] = {"ca_file": str(ca_file or kafka.ca_file)}
    return write_config(folder, kafka, security, listener, **more)
