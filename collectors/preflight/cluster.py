"""`lagwatch check` of one cluster: the way to it, the login, every broker, every question the agent asks.

A step that fails for every address ends the way: what comes after it is listed as not tried. What fails for some
brokers only is told, and the others are asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectors.kafka_client import requests as wire
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.protocol import Deadline
from collectors.preflight.access import APIS, READ_COMMITS, Api, judge_access
from collectors.preflight.network import DNS, TCP, Address, Network
from collectors.preflight.requests import Questions
from collectors.preflight.steps import ClusterCheck, Step
from collectors.preflight.tls import TLS
from lagwatch.errors import SourceError

LOGIN, BROKER = "login", "broker"
_PAUSE_SECONDS = 1.0
_PATH = (DNS, TCP, TLS, LOGIN, BROKER)


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster to check, and what of it is watched."""

    cluster: str
    options: ConnectionOptions
    watch_topic: Callable[[str], bool] = lambda _: True
    watch_group: Callable[[str], bool] = lambda _: True
    reads_commits: bool = False

    @property
    def apis(self) -> tuple[Api, ...]:
        """What the agent asks of it."""
        return (*APIS, READ_COMMITS) if self.reads_commits else APIS

    @property
    def protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return str(self.options.client.get("security_protocol", "PLAINTEXT"))

    @property
    def principal(self) -> str:
        """Whom Kafka takes this client for, as far as it is known here."""
        user = self.options.client.get("sasl_plain_username")
        if user:
            return f"User:{user}"
        return "User:ANONYMOUS" if self.protocol == "PLAINTEXT" else "User:<this client>"

    @property
    def how(self) -> str:
        """`SASL_SSL SCRAM-SHA-512 as User:lagwatch`."""
        mechanism = self.options.client.get("sasl_mechanism")
        return f"{self.protocol}{f' {mechanism}' if mechanism else ''} as {self.principal}"


def check_cluster(target: Target, *, seconds: float, expires_within: float, now: float) -> ClusterCheck:
    """Try everything. Raises nothing for a cluster that does not answer; blocks some fifteen times `seconds` at most."""
    check = _Check(target, Network(target.options, seconds, now, expires_within), seconds)
    asked = check.run()
    done = {step.step for step in check.steps}
    names = [*_PATH, *(api.name for api in target.apis)]
    not_tried = [Step(name, "", "not tried", check.stopped) for name in names if name not in done]
    return ClusterCheck(target.cluster, target.options.bootstrap, target.how, (*check.steps, *not_tried), asked)


class _Check:
    """One check under way."""

    def __init__(self, target: Target, network: Network, seconds: float) -> None:
        self._target = target
        self._network = network
        self._seconds = seconds
        self._reached: list[Address] = []
        self.steps: list[Step] = []
        self.stopped = ""

    def run(self) -> bool:
        """Go as far as possible; whether brokers could be asked."""
        bootstrap = list(dict.fromkeys(Address.of(text) for text in self._target.options.bootstrap))
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
            return self._log_in(connection) and self._ask(connection, options)
        finally:
            connection.close()

    def _reach(self, addresses: Sequence[Address]) -> list[Address]:
        """The addresses to which name, port and certificate are right."""
        names = self._network.resolve(addresses)
        known = {step.target for step in names if step.state == "ok"}
        left = self._keep(names, [address for address in addresses if address.host in known])
        if left:
            left = self._passed(self._network.connect(left), left)
        if left and self._network.uses_tls:
            left = self._passed(self._network.shake_hands(left), left)
            self.steps += self._network.own_certificate()
        elif left:
            self.steps.append(Step(TLS, "", "not tried", f"{self._target.protocol} uses no TLS"))
        return left

    def _passed(self, steps: Sequence[Step], addresses: Sequence[Address]) -> list[Address]:
        passed = [address for address, step in zip(addresses, steps, strict=True) if step.state != "failed"]
        return self._keep(steps, passed)

    def _keep(self, steps: Sequence[Step], left: list[Address]) -> list[Address]:
        self.steps += steps
        if not left:
            self.stopped = f"{steps[0].step} failed for every bootstrap address"
        return left

    def _log_in(self, connection: KafkaConnection) -> bool:
        start = time.monotonic()
        try:
            connection.run(_nothing, self._seconds)
        except SourceError as error:
            step = judge_login_error(self._target.protocol, str(error))
            self.stopped = "the login failed"
        else:
            step = Step(LOGIN, "", "ok", f"let in as {self._target.principal}")
        self.steps.append(step.took(time.monotonic() - start))
        return step.state == "ok"

    def _ask(self, connection: KafkaConnection, options: ConnectionOptions) -> bool:
        brokers = self._reach_brokers(connection)
        if not brokers:
            self.stopped = "no broker can be reached at its advertised address"
            return False
        heard = self._questions(connection, options, brokers).ask()
        if heard.may_pass():  # a coordinator that loads, a leader that moves: not worth a finding if it passes
            time.sleep(_PAUSE_SECONDS)
            heard = self._questions(connection, options, brokers).ask()
        self.steps += judge_access(heard, self._target.principal, options.bootstrap[0], self._target.apis)
        return True

    def _questions(self, connection: KafkaConnection, options: ConnectionOptions, brokers: Sequence[int]) -> Questions:
        return Questions(
            options,
            connection,
            brokers,
            watch_topic=self._target.watch_topic,
            watch_group=self._target.watch_group,
            reads_commits=self._target.reads_commits,
            seconds=self._seconds,
        )

    def _reach_brokers(self, connection: KafkaConnection) -> list[int]:
        """Clients are told by each broker where to find it; the bootstrap addresses are only for the first question."""
        advertised = {node: Address(*where) for node, where in connection.addresses().items()}
        failed: dict[Address, Step] = {}
        left = [address for address in dict.fromkeys(advertised.values()) if address not in self._reached]
        names = {step.target: step for step in self._network.resolve(left)}
        failed |= {address: names[address.host] for address in left if names[address.host].state == "failed"}
        for attempt in (self._network.connect, self._network.shake_hands):
            left = [address for address in left if address not in failed]
            steps = zip(left, attempt(left), strict=True)
            failed |= {address: step for address, step in steps if step.found}
        ends_soon = {address: step for address, step in failed.items() if step.state == "warning"}
        nodes = [node for node, address in advertised.items() if address not in failed or address in ends_soon]
        answers = self._ask_each(connection, nodes)
        for node, address in sorted(advertised.items()):
            answer, took = answers.get(node, (None, None))
            self.steps.append(judge_broker(node, address, failed.get(address), answer).took(took))
        return [node for node, (answer, _) in answers.items() if answer is None]

    def _ask_each(
        self, connection: KafkaConnection, nodes: Sequence[int]
    ) -> dict[int, tuple[SourceError | None, float]]:
        """Log in to every broker and ask something anyone may ask: why it did not answer, and after how long."""
        start = time.monotonic()

        async def ask_one(node: int, deadline: Deadline) -> float:
            await connection.ask(node, wire.describe_cluster_request(), deadline)
            return time.monotonic() - start

        async def ask(deadline: Deadline) -> list[float | SourceError]:
            return await connection.gather([ask_one(node, deadline) for node in nodes])

        try:
            answers = connection.run(ask, self._seconds)
        except SourceError as error:
            answers = [error] * len(nodes)
        late = time.monotonic() - start
        return {
            node: (answer, late) if isinstance(answer, SourceError) else (None, answer)
            for node, answer in zip(nodes, answers, strict=True)
        }


async def _nothing(_deadline: Deadline) -> None:
    """Connecting was all."""


# --- what it means; pure ---


def judge_login_error(protocol: str, reason: str) -> Step:
    """Why the brokers did not let this client in, and where to look."""
    return Step(LOGIN, "", "failed", reason, _login_advice(protocol, reason))


def _login_advice(protocol: str, reason: str) -> str:
    if "SASL authentication failed" in reason:
        return (
            "user name or password is wrong, or belongs to another mechanism (SCRAM passwords are kept for each): "
            "look at security.sasl"
        )
    if "does not offer this SASL mechanism" in reason:
        return "set security.sasl.mechanism to one of the listener's sasl.enabled.mechanisms"
    if "does not use SASL" in reason:
        return "set security.protocol: PLAINTEXT or SSL, or use the port of a SASL listener"
    if "may speak TLS" in reason:
        return "set security.protocol: SSL or SASL_SSL, or use the port of a listener without TLS"
    if "alert" in reason and "SSL" in protocol:
        return "the broker wants a certificate of this client that it trusts: set security.tls.cert_file and key_file"
    if "connection lost" in reason and "SASL" not in protocol:
        return f"the broker hung up: its listener may want SASL, and security.protocol is {protocol}"
    if "token endpoint" in reason:
        return "look at security.sasl.oauth, and whether this host reaches the endpoint"
    return "look at the broker's log, or give more time with --timeout"


def judge_broker(node: int, address: Address, way: Step | None, answer: SourceError | None) -> Step:
    """Whether a broker can be asked where it says it is. `way` is the step on the way to it that found something."""
    target = f"{node} at {address}"
    if way is not None and way.state == "failed":
        return _lost_broker(target, f"{way.step}: {way.says}")
    if answer is not None:
        return _lost_broker(target, str(answer))
    if way is not None:
        return Step(BROKER, target, "warning", f"reached; {way.says}", way.do)
    return Step(BROKER, target, "ok", "reached at its advertised address")


def _lost_broker(target: str, reason: str) -> Step:
    return Step(
        BROKER,
        target,
        "failed",
        f"not reached at its advertised address: {reason}",
        "correct advertised.listeners of the broker, or make that name and port reachable from this host",
        loses="the groups it coordinates and the partitions it leads",
    )
