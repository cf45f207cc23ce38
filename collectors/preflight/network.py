"""The way to a broker: its name, its port, its certificate. Each address is tried on its own, all side by side."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from collectors.kafka_client.connection import ConnectionOptions, tls_context
from collectors.preflight.steps import Outcome, Step, side_by_side
from collectors.preflight.tls import (
    TLS,
    judge_certificate,
    judge_handshake_error,
    read_certificate,
    shake_hands,
)

DNS, TCP = "DNS", "TCP"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker is said to be."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """From `host:port`, an IPv6 address in brackets."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Network:
    """Tries addresses the way the agent's connections go. Each call blocks at most `seconds` a step."""

    def __init__(self, options: ConnectionOptions, seconds: float, now: float, expires_within: float) -> None:
        self._options = options
        self._seconds = seconds
        self._now = now
        self._expires_within = expires_within

    @property
    def uses_tls(self) -> bool:
        """Whether the connections are encrypted."""
        return "SSL" in str(self._options.client.get("security_protocol", "PLAINTEXT"))

    def resolve(self, addresses: Sequence[Address]) -> list[Step]:
        """Look up each host, in the order of the addresses."""
        hosts = list(dict.fromkeys(address.host for address in addresses))
        outcomes = side_by_side([partial(_look_up, host) for host in hosts], self._seconds)
        return [judge_name(host, outcome) for host, outcome in zip(hosts, outcomes, strict=True)]

    def connect(self, addresses: Sequence[Address]) -> list[Step]:
        """Open and close a connection to each address."""
        outcomes = side_by_side([partial(_connect, address, self._seconds) for address in addresses], self._seconds)
        return [judge_port(address, outcome) for address, outcome in zip(addresses, outcomes, strict=True)]

    def shake_hands(self, addresses: Sequence[Address]) -> list[Step]:
        """A TLS handshake with each address; without TLS nothing is done."""
        if not self.uses_tls:
            return [Step(TLS, str(address), "not tried", "connections are not encrypted") for address in addresses]
        try:
            context = tls_context(self._options)
        except OSError as error:
            step = judge_files(error)
            return [Step(TLS, str(address), step.state, step.says, step.do) for address in addresses]
        works = [partial(shake_hands, address.host, address.port, context, self._seconds) for address in addresses]
        steps = []
        for address, outcome in zip(addresses, side_by_side(works, 2 * self._seconds), strict=True):
            if outcome.result is None:
                step = judge_handshake_error(str(address), outcome.error)
            else:
                step = judge_certificate(str(address), outcome.result, self._now, self._expires_within)
            steps.append(step.took(outcome.seconds))
        return steps

    def own_certificate(self) -> list[Step]:
        """The certificate this client shows, where it has one: brokers let nobody in with an expired one."""
        path = self._options.client.get("ssl_certfile") if self.uses_tls else None
        certificate = read_certificate(Path(path)) if path else None
        if certificate is None:
            return []
        return [judge_certificate("own certificate", certificate, self._now, self._expires_within)]


def _look_up(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _connect(address: Address, seconds: float) -> str:
    with socket.create_connection((address.host, address.port), timeout=seconds) as connection:
        return str(connection.getpeername()[0])


# --- what it means; pure ---


def judge_name(host: str, outcome: Outcome[list[str]]) -> Step:
    """A look-up of a host name."""
    if outcome.result:
        return Step(DNS, host, "ok", ", ".join(outcome.result)).took(outcome.seconds)
    late = isinstance(outcome.error, TimeoutError)
    says = "the name server does not answer" if late else "the host name does not resolve on this host"
    do = "look at the name, /etc/hosts and /etc/resolv.conf of the host lagwatch runs on"
    return Step(DNS, host, "failed", says, do).took(outcome.seconds)


def judge_port(address: Address, outcome: Outcome[str]) -> Step:
    """A TCP connection to a port."""
    if outcome.result is not None:
        return Step(TCP, str(address), "ok", f"connected to {outcome.result}").took(outcome.seconds)
    says, do = _explain_port(outcome.error)
    return Step(TCP, str(address), "failed", says, do).took(outcome.seconds)


def _explain_port(error: Any) -> tuple[str, str]:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused", "nothing listens there: is the broker up, and is this the port of its listener?"
    if isinstance(error, TimeoutError):
        return "no answer", "a firewall may drop the packets, or the host is down: open the port for this host"
    reason = getattr(error, "strerror", None) or type(error).__name__
    return f"cannot be reached: {reason}", "look at routes and firewalls between this host and the broker"


def judge_files(error: OSError) -> Step:
    """Certificate files that cannot be used; the text of the error holds no password."""
    if isinstance(error, ssl.SSLError):
        says = f"the certificate files cannot be used ({error.reason or 'not PEM, or the wrong key password'})"
    else:
        says = f"a certificate file cannot be read: {error.strerror}"
    return Step(TLS, "", "failed", says, "look at ca_file, cert_file, key_file and key_password in security.tls")
