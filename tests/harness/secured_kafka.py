"""A cluster that lets nobody in without a password, and a user who has exactly the ACLs that docs/acls.md gives."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer

from lagwatch.demo.kafka_access import CLUSTER_RESOURCE
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
COMMITS_COMMAND = 2  # the place on the page of what `commits: topic` needs
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
    """What follows kafka-acls.sh in the page, without the address and the administrator's login."""
    lines = [line for line in ACLS_PAGE.read_text().splitlines() if line.startswith("kafka-acls.sh")]
    return [shlex.split(line)[5:] for line in lines]


def _advertise_wrongly(cluster: KafkaCluster, listener: str) -> None:
    """Make the node say of one listener that it is where nobody listens: the classic trap."""
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
        max_poll_interval_ms=_LONGER_THAN_ANY_RUN * 1000,
    )
    try:
        assert wait_until(lambda: consumer.poll(timeout_ms=200) is not None and bool(consumer.assignment()), 120)
        yield
    finally:
        consumer.close()


@contextmanager
def _new_member(cluster: KafkaCluster) -> Iterator[None]:
    """kafka-python does not speak the new protocol: Kafka's own consumer does. It ends after one record."""
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
    """Take one ACL away for a while."""
    cluster.remove_acl(PRINCIPAL, *acl)
    try:
        yield
    finally:
        cluster.add_acl(PRINCIPAL, *acl)


@contextmanager
def reading_commits(cluster: KafkaCluster) -> Iterator[None]:
    """Give what `commits: topic` needs, by the documented command, for a while."""
    done = cluster.tool("org.apache.kafka.tools.AclCommand", *documented_commands()[COMMITS_COMMAND])
    assert done.returncode == 0, done.stderr
    cluster.add_acl(PRINCIPAL, *COMMITS_ACL)  # the same once more: it waits until every broker knows
    try:
        yield
    finally:
        cluster.remove_acl(PRINCIPAL, *COMMITS_ACL)


def write_config(folder: Path, kafka: KafkaCluster, security: dict[str, Any], listener: str, **more: Any) -> Path:
    """A configuration of one cluster, `east`, that comes in at a listener; `more` are keys of the cluster."""
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
    """The configuration of the documented user, right unless told otherwise."""
    (folder / "password").write_text(password)
    (folder / "password").chmod(0o600)
    sasl = {"mechanism": "SCRAM-SHA-512", "username": USER, "password_file": "password"}
    security: dict[str, Any] = {"protocol": listener, "sasl": sasl}
    if listener == "SASL_SSL":
        security["tls"] = {"ca_file": str(ca_file or kafka.ca_file)}
    return write_config(folder, kafka, security, listener, **more)
