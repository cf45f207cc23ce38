"""Plans a cluster on loopback: the roles, ports and settings of each node."""

from __future__ import annotations

import base64
import random
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

INTERNAL = "INTERNAL"  # the listener of brokers, tools and tests; CONTROLLER is the listener of the quorum
CONTROLLER = "CONTROLLER"
FIRST_CONTROLLER_ID = 101

# Below the ports Linux hands to outgoing connections, so that a node that was down for a while finds its port free.
PORTS = range(10_000, 32_000)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The id and roles of a node, and a port for each of its listeners and for JMX."""

    id: int
    roles: tuple[str, ...]
    ports: Mapping[str, int]
    jmx_port: int

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles


def plan_nodes(
    brokers: int, controllers: int, listeners: Sequence[str], choose_port: Callable[[], int]
) -> list[NodePlan]:
    """The plan of each node. Combined controllers are three or one: a quorum of two stops when either is down."""
    combined = 0 if controllers else (3 if brokers >= 3 else 1)

    def plan(node_id: int, *roles: str) -> NodePlan:
        names = [*(listeners if "broker" in roles else ()), *([CONTROLLER] if "controller" in roles else ())]
        return NodePlan(node_id, roles, {name: choose_port() for name in names}, choose_port())

    return [
        *(plan(number, "broker", "controller") for number in range(1, combined + 1)),
        *(plan(number, "broker") for number in range(combined + 1, brokers + 1)),
        *(plan(FIRST_CONTROLLER_ID + number, "controller") for number in range(controllers)),
    ]


def node_settings(
    plan: NodePlan, cluster: Sequence[NodePlan], protocols: Mapping[str, str], data: Path
) -> dict[str, str]:
    """The server.properties of one node: fast to start, small, and fast to notice that another node is down.

    `protocols` are the security protocols of the brokers' listeners, by listener name.
    """
    mine = {name: f"{name}://127.0.0.1:{port}" for name, port in plan.ports.items()}
    public = ",".join(address for name, address in mine.items() if name != CONTROLLER)
    secured = {**protocols, CONTROLLER: "PLAINTEXT"}
    copies = str(min(3, sum(node.is_broker for node in cluster)))
    settings = {
        "process.roles": ",".join(plan.roles),
        "node.id": str(plan.id),
        "controller.quorum.voters": ",".join(
            f"{node.id}@127.0.0.1:{node.ports[CONTROLLER]}" for node in cluster if node.is_controller
        ),
        "listeners": ",".join(mine.values()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in secured.items()),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        # The time until a killed broker is fenced; a shorter one would fence running brokers on a busy machine.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        # How long requests forwarded to a frozen controller hang (30 s by default) before brokers find the new one.
        "controller.socket.timeout.ms": "5000",
        "offsets.topic.num.partitions": "6",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "log.cleaner.dedupe.buffer.size": "4194304",  # the default of 128 MiB is half of the heap
        "log.index.size.max.bytes": "1048576",
    }
    if plan.is_broker:
        settings["advertised.listeners"] = public
    return settings


def as_properties(settings: Mapping[str, str]) -> str:
    """Settings as the text of a Java properties file; backslashes and line ends in values are escaped."""
    escape = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
    return "".join(f"{key}={value.translate(escape)}\n" for key, value in settings.items())


def meta_properties(cluster_id: str, node_id: int) -> str:
    """The meta.properties that assign a formatted folder to one node; each folder has a unique id."""
    return as_properties(
        {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": kafka_uuid()}
    )


def kafka_uuid() -> str:
    """A random id in Kafka's format: 22 characters of URL-safe base64 without a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def port_chooser(ports: Sequence[int] = PORTS) -> Callable[[], int]:
    """Returns a function that yields a different free port of 127.0.0.1 at each call."""
    given: set[int] = set()

    def choose() -> int:
        while True:
            port = random.choice(ports)
            if port not in given and _is_free(port):
                given.add(port)
                return port

    return choose


def _is_free(port: int) -> bool:
    with socket.socket() as attempt:
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
