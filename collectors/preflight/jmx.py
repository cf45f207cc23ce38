"""Checks JMX endpoints for `lagwatch check`: one step for each, with advice if something is wrong."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence

from collectors.jmx_beans.parsing import key_properties
from collectors.jmx_beans.values import ROLE_BEANS, roles_in
from collectors.jmx_brokers import Connect
from collectors.jmx_client.endpoints import Endpoint
from collectors.jmx_client.jvm import CALLS_PER_CONNECTION
from collectors.preflight.steps import Step, TaskOutcome, run_in_parallel
from lagwatch.errors import SourceError
from lagwatch.source_names import JMX

_IDS = "kafka.server:type=app-info,id=*"
_IMPACT = "load, latency, JVM and quorum of the node; under-replication and the controller do not need it"

Stub = Callable[[str, int], tuple[str, int] | None]


def check_jmx(
    endpoints: Sequence[Endpoint], connect: Connect, stub_address: Stub | None, *, seconds: float
) -> list[Step]:
    """Check each endpoint, in parallel. `stub_address` returns, for RMI, where the registry sends its clients."""
    if not endpoints:
        return [
            Step(
                JMX,
                "",
                "failed",
                "no endpoint: no broker returned its address, and none is listed",
                "check clusters[].jmx",
            )
        ]

    def task(endpoint: Endpoint) -> Callable[[], Step]:
        return lambda: _try(endpoint, connect, stub_address)

    outcomes = run_in_parallel([task(endpoint) for endpoint in endpoints], seconds * CALLS_PER_CONNECTION)
    return [_step(endpoint, outcome) for endpoint, outcome in zip(endpoints, outcomes, strict=True)]


def _step(endpoint: Endpoint, outcome: TaskOutcome[Step]) -> Step:
    if outcome.result is not None:
        return outcome.result.with_duration(outcome.seconds)
    return jmx_failure_step(endpoint, None, str(outcome.error)).with_duration(outcome.seconds)


def _try(endpoint: Endpoint, connect: Connect, stub_address: Stub | None) -> Step:
    stub = None
    try:
        stub = stub_address(endpoint.host, endpoint.port) if stub_address else None
        connection = connect(endpoint.host, endpoint.port)
        *signs, ids = connection.names([*ROLE_BEANS, _IDS])
        connection.close()
    except SourceError as error:
        return jmx_failure_step(endpoint, _other_host(endpoint, stub), str(error))
    roles = sorted(role.value for role in roles_in(dict(zip(ROLE_BEANS, signs, strict=True))) if role.value)
    nodes = [key_properties(name)["id"] for name in ids]
    return jmx_answer_step(endpoint, _other_host(endpoint, stub), roles, nodes)


def _other_host(endpoint: Endpoint, stub: tuple[str, int] | None) -> str | None:
    """The address in the stub, if it is another host than the endpoint's."""
    if stub is None or stub[0] == endpoint.host or _addresses(stub[0]) & _addresses(endpoint.host):
        return None
    return f"{stub[0]}:{stub[1]}"


def _addresses(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


# --- interpretation; pure ---


def jmx_answer_step(endpoint: Endpoint, other_host: str | None, roles: Sequence[str], nodes: Sequence[str]) -> Step:
    """The step of an endpoint that responds: warns if it is another node, or if its stub names another host."""
    target = f"{endpoint.target} at {endpoint.host}:{endpoint.port}"
    if not roles:
        return Step(
            JMX, target, "warning", "the JVM that answers is not a Kafka node, or is still starting", "check the port"
        )
    if nodes and str(endpoint.node) not in nodes:
        message = f"this is node {', '.join(nodes)}, not {endpoint.node}"
        return Step(
            JMX,
            target,
            "warning",
            message,
            "correct the address in clusters[].jmx: its values are attributed to the wrong node",
        )
    if other_host:
        return Step(
            JMX,
            target,
            "warning",
            f"answers, but its RMI stub names another host: {other_host}",
            _hostname_advice(endpoint),
        )
    return Step(JMX, target, "ok", f"answers as {' and '.join(roles)}")


def jmx_failure_step(endpoint: Endpoint, other_host: str | None, reason: str) -> Step:
    """The step of an endpoint that does not respond, with advice."""
    target = f"{endpoint.target} at {endpoint.host}:{endpoint.port}"
    if other_host:
        message = f"its RMI stub names another host, {other_host}, which cannot be reached from here: {reason}"
        return Step(JMX, target, "failed", message, _hostname_advice(endpoint), impact=_IMPACT)
    return Step(JMX, target, "failed", reason, _advice(reason), impact=_IMPACT)


def _hostname_advice(endpoint: Endpoint) -> str:
    return (
        f"start the node with -Djava.rmi.server.hostname={endpoint.host} "
        f"-Dcom.sun.management.jmxremote.rmi.port={endpoint.port}"
    )


def _advice(reason: str) -> str:
    if "login" in reason:
        return "check username and password_file in clusters[].jmx"
    if "not trusted" in reason:
        return "set jmx.ca_file to the CA that signed the node's JMX certificate"
    if re.search(r"refused|no answer|not found", reason):
        return "start the node with JMX_PORT set, or correct the port in clusters[].jmx; open it to this host"
    if "does not speak RMI" in reason:
        return "check port and registry_tls in clusters[].jmx, or set via: jolokia"
    if "no Java" in reason or "JVM for JMX" in reason:
        return "check jmx.java"
    return "check the node's log"
