"""`lagwatch check` of JMX: endpoints enter, a step for each leaves, with what to do where something is wrong."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence

from collectors.jmx_beans.values import SIGNS, roles_in
from collectors.jmx_brokers import Connect
from collectors.jmx_client.endpoints import Endpoint
from collectors.jmx_client.parsing import properties_of
from collectors.preflight.steps import Outcome, Step, side_by_side
from lagwatch.errors import SourceError

JMX = "jmx"
_IDS = "kafka.server:type=app-info,id=*"
_TIMES = 4  # a connection takes several steps, each of which may take so long
_LOSES = "load, latency, JVM and quorum of the node; under-replication and controller are known without it"

Stub = Callable[[str, int], tuple[str, int] | None]


def check_jmx(endpoints: Sequence[Endpoint], connect: Connect, stub_of: Stub | None, *, seconds: float) -> list[Step]:
    """Try each endpoint, side by side. `stub_of` tells, for RMI, where the registry sends its clients."""
    if not endpoints:
        return [
            Step(
                JMX,
                "",
                "failed",
                "no endpoint: no broker told where it is, and none is listed",
                "look at clusters[].jmx",
            )
        ]

    def work(endpoint: Endpoint) -> Callable[[], Step]:
        return lambda: _try(endpoint, connect, stub_of)

    outcomes = side_by_side([work(endpoint) for endpoint in endpoints], seconds * _TIMES)
    return [_step(endpoint, outcome) for endpoint, outcome in zip(endpoints, outcomes, strict=True)]


def _step(endpoint: Endpoint, outcome: Outcome[Step]) -> Step:
    if outcome.result is not None:
        return outcome.result.took(outcome.seconds)
    return judge_failure(endpoint, None, str(outcome.error)).took(outcome.seconds)


def _try(endpoint: Endpoint, connect: Connect, stub_of: Stub | None) -> Step:
    stub = None
    try:
        stub = stub_of(endpoint.host, endpoint.port) if stub_of else None
        connection = connect(endpoint.host, endpoint.port)
        *signs, ids = connection.names([*SIGNS, _IDS])
        connection.close()
    except SourceError as error:
        return judge_failure(endpoint, _elsewhere(endpoint, stub), str(error))
    roles = sorted(role.value for role in roles_in(dict(zip(SIGNS, signs, strict=True))) if role.value)
    nodes = [properties_of(name)["id"] for name in ids]
    return judge_answer(endpoint, _elsewhere(endpoint, stub), roles, nodes)


def _elsewhere(endpoint: Endpoint, stub: tuple[str, int] | None) -> str | None:
    """The host a stub names, where it is another one than was asked."""
    if stub is None or stub[0] == endpoint.host or _addresses(stub[0]) & _addresses(endpoint.host):
        return None
    return f"{stub[0]}:{stub[1]}"


def _addresses(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


# --- what it means; pure ---


def judge_answer(endpoint: Endpoint, elsewhere: str | None, roles: Sequence[str], nodes: Sequence[str]) -> Step:
    """An endpoint that answered: is it the node it is listed as, and does its stub lead to the same host?"""
    target = f"{endpoint.target} at {endpoint.host}:{endpoint.port}"
    if not roles:
        return Step(
            JMX, target, "warning", "a JVM answers that is no Kafka node, or is still starting", "look at the port"
        )
    if nodes and str(endpoint.node) not in nodes:
        says = f"this is node {', '.join(nodes)}, not {endpoint.node}"
        return Step(
            JMX, target, "warning", says, "correct the address in clusters[].jmx: its values count for another node"
        )
    if elsewhere:
        return Step(
            JMX, target, "warning", f"answers, but its RMI stub names another host: {elsewhere}", _hostname(endpoint)
        )
    return Step(JMX, target, "ok", f"answers as {' and '.join(roles)}")


def judge_failure(endpoint: Endpoint, elsewhere: str | None, reason: str) -> Step:
    """An endpoint that did not answer, and what to do about it."""
    target = f"{endpoint.target} at {endpoint.host}:{endpoint.port}"
    if elsewhere:
        says = f"its RMI stub names another host, {elsewhere}, which cannot be asked from here: {reason}"
        return Step(JMX, target, "failed", says, _hostname(endpoint), loses=_LOSES)
    return Step(JMX, target, "failed", reason, _advice(reason), loses=_LOSES)


def _hostname(endpoint: Endpoint) -> str:
    return (
        f"start the node with -Djava.rmi.server.hostname={endpoint.host} "
        f"-Dcom.sun.management.jmxremote.rmi.port={endpoint.port}"
    )


def _advice(reason: str) -> str:
    if "login" in reason:
        return "look at username and password_file in clusters[].jmx"
    if "not trusted" in reason:
        return "set jmx.ca_file to the authority that signed the node's JMX certificate"
    if re.search(r"refused|no answer|not found", reason):
        return "start the node with JMX_PORT set, or correct the port in clusters[].jmx; open it to this host"
    if "does not speak RMI" in reason:
        return "look at port and registry_tls in clusters[].jmx, or set via: jolokia"
    if "no Java" in reason or "JVM that carries" in reason:
        return "look at jmx.java"
    return "look at the node's log"
