"""Checks one cluster for `lagwatch check`: the network path, the login, every broker, every request the agent sends.

A step that fails for every address ends the check: later steps are listed as not tried. If a step fails for some brokers
only, the check reports that and continues with the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from collectors.kafka_client import requests
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.connection_interface import Deadline
from collectors.preflight.access import APIS, READ_COMMITS, READ_COMMITS_IF_ALLOWED, Api, access_steps
from collectors.preflight.network import DNS, TCP, BrokerAddress, Network
from collectors.preflight.requests import AccessRequests
from collectors.preflight.steps import ClusterCheck, Step
from collectors.preflight.tls import TLS
from lagwatch.errors import SourceError

LOGIN, BROKER = "login", "broker"
_PAUSE_SECONDS = 1.0
_PATH = (DNS, TCP, TLS, LOGIN, BROKER)
_COMMITS_APIS = {"auto": (READ_COMMITS_IF_ALLOWED,), "poll": (), "topic": (READ_COMMITS,)}


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """A cluster to check, with its topic and group filters."""

    cluster: str
    options: ConnectionOptions
    watch_topic: Callable[[str], bool] = lambda _: True
    watch_group: Callable[[str], bool] = lambda _: True
    commits: Literal["auto", "poll", "topic"] = "poll"

    @property
    def apis(self) -> tuple[Api, ...]:
        """The requests the agent sends to it."""
        return (*APIS, *_COMMITS_APIS[self.commits])

    @property
    def protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return str(self.options.client.get("security_protocol", "PLAINTEXT"))

    @property
    def principal(self) -> str:
        """The principal that Kafka authenticates, if the configuration shows it."""
        user = self.options.client.get("sasl_plain_username")
        if user:
            return f"User:{user}"
        return "User:ANONYMOUS" if self.protocol == "PLAINTEXT" else "User:<this client>"

    @property
    def how(self) -> str:
        """`SASL_SSL SCRAM-SHA-512 as User:lagwatch`."""
        mechanism = self.options.client.get("sasl_mechanism")
        return f"{self.protocol}{f' {mechanism}' if mechanism else ''} as {self.principal}"


def check_cluster(target: CheckTarget, *, seconds: float, expires_within: float, now: float) -> ClusterCheck:
    """Run all steps. Does not raise for an unreachable cluster; blocks at most about fifteen times `seconds`."""
    check = _Check(target, Network(target.options, seconds, now, expires_within), seconds)
    reached_brokers = check.run()
    done = {step.step for step in check.steps}
    names = [*_PATH, *(api.name for api in target.apis)]
    not_tried = [Step(name, "", "not tried", check.stopped) for name in names if name not in done]
    return ClusterCheck(
        target.cluster, target.options.bootstrap, target.how, (*check.steps, *not_tried), reached_brokers
    )


class _Check:
    """One check in progress."""

    def __init__(self, target: CheckTarget, network: Network, seconds: float) -> None:
        self._target = target
        self._network = network
        self._seconds = seconds
        self._reached: list[BrokerAddress] = []
        self.steps: list[Step] = []
        self.stopped = ""

    def run(self) -> bool:
        """Run as many steps as possible; returns whether requests could be sent."""
        bootstrap = list(dict.fromkeys(BrokerAddress.of(text) for text in self._target.options.bootstrap))
        self._reached = self._reach(bootstrap)
        if not self._reached:
            return False
        options = ConnectionOptions(
            tuple(str(address) for address in self._reached),
            self._target.options.client,
            self._target.options.oauth_token,
            self._target.options.receive_max_bytes,
        )
        connection = KafkaConnection(options)
        try:
            return self._log_in(connection) and self._request_all(connection, options)
        finally:
            connection.close()

    def _reach(self, addresses: Sequence[BrokerAddress]) -> list[BrokerAddress]:
        """The addresses that pass DNS, TCP and TLS."""
        names = self._network.resolve(addresses)
        resolved = {step.target for step in names if step.state == "ok"}
        remaining = self._keep(names, [address for address in addresses if address.host in resolved])
        if remaining:
            remaining = self._passed(self._network.connect(remaining), remaining)
        if remaining and self._network.uses_tls:
            remaining = self._passed(self._network.tls_handshake(remaining), remaining)
            self.steps += self._network.own_certificate()
        elif remaining:
            self.steps.append(Step(TLS, "", "not tried", f"{self._target.protocol} uses no TLS"))
        return remaining

    def _passed(self, steps: Sequence[Step], addresses: Sequence[BrokerAddress]) -> list[BrokerAddress]:
        passed = [address for address, step in zip(addresses, steps, strict=True) if step.state != "failed"]
        return self._keep(steps, passed)

    def _keep(self, steps: Sequence[Step], remaining: list[BrokerAddress]) -> list[BrokerAddress]:
        self.steps += steps
        if not remaining:
            self.stopped = f"{steps[0].step} failed for every bootstrap address"
        return remaining

    def _log_in(self, connection: KafkaConnection) -> bool:
        start = time.monotonic()
        try:
            connection.run(_no_work, self._seconds)
        except SourceError as error:
            step = login_error_step(self._target.protocol, str(error))
            self.stopped = "the login failed"
        else:
            step = Step(LOGIN, "", "ok", f"logged in as {self._target.principal}")
        self.steps.append(step.with_duration(time.monotonic() - start))
        return step.state == "ok"

    def _request_all(self, connection: KafkaConnection, options: ConnectionOptions) -> bool:
        brokers = self._reach_brokers(connection)
        if not brokers:
            self.stopped = "no broker can be reached at its advertised address"
            return False
        results = self._requests(connection, options, brokers).run()
        # A loading coordinator or moving leader is not worth a warning if a retry succeeds.
        if results.has_transient_errors():
            time.sleep(_PAUSE_SECONDS)
            results = self._requests(connection, options, brokers).run()
        self.steps += access_steps(results, self._target.principal, options.bootstrap[0], self._target.apis)
        return True

    def _requests(
        self, connection: KafkaConnection, options: ConnectionOptions, brokers: Sequence[int]
    ) -> AccessRequests:
        return AccessRequests(
            options,
            connection,
            brokers,
            watch_topic=self._target.watch_topic,
            watch_group=self._target.watch_group,
            reads_commits=self._target.commits != "poll",
            seconds=self._seconds,
        )

    def _reach_brokers(self, connection: KafkaConnection) -> list[int]:
        """The brokers that respond at their advertised addresses, which clients use after the first request."""
        advertised = {node: BrokerAddress(*where) for node, where in connection.addresses().items()}
        failed: dict[BrokerAddress, Step] = {}
        remaining = [address for address in dict.fromkeys(advertised.values()) if address not in self._reached]
        names = {step.target: step for step in self._network.resolve(remaining)}
        failed |= {address: names[address.host] for address in remaining if names[address.host].state == "failed"}
        for attempt in (self._network.connect, self._network.tls_handshake):
            remaining = [address for address in remaining if address not in failed]
            steps = zip(remaining, attempt(remaining), strict=True)
            failed |= {address: step for address, step in steps if step.is_finding}
        expiring = {address: step for address, step in failed.items() if step.state == "warning"}
        nodes = [node for node, address in advertised.items() if address not in failed or address in expiring]
        responses = self._probe_brokers(connection, nodes)
        for node, address in sorted(advertised.items()):
            response, took = responses.get(node, (None, None))
            self.steps.append(broker_step(node, address, failed.get(address), response).with_duration(took))
        return [node for node, (response, _) in responses.items() if response is None]

    def _probe_brokers(
        self, connection: KafkaConnection, nodes: Sequence[int]
    ) -> dict[int, tuple[SourceError | None, float]]:
        """Send every broker a request that needs no permission; returns the error, if any, and the duration."""
        start = time.monotonic()

        async def probe(node: int, deadline: Deadline) -> float:
            await connection.request(node, requests.describe_cluster_request(), deadline)
            return time.monotonic() - start

        async def probe_all(deadline: Deadline) -> list[float | SourceError]:
            return await connection.gather([probe(node, deadline) for node in nodes])

        try:
            responses = connection.run(probe_all, self._seconds)
        except SourceError as error:
            responses = [error] * len(nodes)
        late = time.monotonic() - start
        return {
            node: (response, late) if isinstance(response, SourceError) else (None, response)
            for node, response in zip(nodes, responses, strict=True)
        }


async def _no_work(_deadline: Deadline) -> None:
    """Nothing: connecting is the test."""


# --- interpretation; pure ---


def login_error_step(protocol: str, reason: str) -> Step:
    """The step of a login that failed, with advice."""
    return Step(LOGIN, "", "failed", reason, _login_advice(protocol, reason))


def _login_advice(protocol: str, reason: str) -> str:
    if "SASL authentication failed" in reason:
        return (
            "user name or password is wrong, or is of another mechanism (SCRAM stores a password for each): "
            "check security.sasl"
        )
    if "does not offer this SASL mechanism" in reason:
        return "set security.sasl.mechanism to one of the listener's sasl.enabled.mechanisms"
    if "does not use SASL" in reason:
        return "set security.protocol: PLAINTEXT or SSL, or use the port of a SASL listener"
    if "may speak TLS" in reason:
        return "set security.protocol: SSL or SASL_SSL, or use the port of a listener without TLS"
    if "alert" in reason and "SSL" in protocol:
        return "the broker requires a client certificate that it trusts: set security.tls.cert_file and key_file"
    if "connection lost" in reason and "SASL" not in protocol:
        return f"the broker closed the connection: its listener may need SASL, but security.protocol is {protocol}"
    if "token endpoint" in reason:
        return "check security.sasl.oauth, and that this host reaches the endpoint"
    return "check the broker's log, or raise --timeout"


def broker_step(node: int, address: BrokerAddress, path: Step | None, response: SourceError | None) -> Step:
    """Whether a broker responds at its advertised address. `path` is the network step with a finding, if any."""
    target = f"{node} at {address}"
    if path is not None and path.state == "failed":
        return _unreachable_broker(target, f"{path.step}: {path.message}")
    if response is not None:
        return _unreachable_broker(target, str(response))
    if path is not None:
        return Step(BROKER, target, "warning", f"reached; {path.message}", path.action)
    return Step(BROKER, target, "ok", "reached at its advertised address")


def _unreachable_broker(target: str, reason: str) -> Step:
    return Step(
        BROKER,
        target,
        "failed",
        f"not reached at its advertised address: {reason}",
        "correct advertised.listeners of the broker, or make that name and port reachable from this host",
        impact="the groups it coordinates and the partitions it leads",
    )
