"""Checks the network path to brokers: DNS, TCP and TLS, all addresses in parallel."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from collectors.kafka_client.connection import ConnectionOptions, tls_context
from collectors.preflight.steps import Step, TaskOutcome, run_in_parallel
from collectors.preflight.tls import (
    TLS,
    certificate_step,
    handshake_error_step,
    read_certificate,
    tls_handshake,
)

DNS, TCP = "DNS", "TCP"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker's host and port."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> BrokerAddress:
        """Parse `host:port`, with an IPv6 address in brackets."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Network:
    """Tests addresses the way the agent connects. Each call blocks at most `seconds` per step."""

    def __init__(self, options: ConnectionOptions, seconds: float, now: float, expires_within: float) -> None:
        self._options = options
        self._seconds = seconds
        self._now = now
        self._expires_within = expires_within

    @property
    def uses_tls(self) -> bool:
        """Whether connections use TLS."""
        return "SSL" in str(self._options.client.get("security_protocol", "PLAINTEXT"))

    def resolve(self, addresses: Sequence[BrokerAddress]) -> list[Step]:
        """Resolve each host, in the order of the addresses."""
        hosts = list(dict.fromkeys(address.host for address in addresses))
        outcomes = run_in_parallel([partial(_look_up, host) for host in hosts], self._seconds)
        return [dns_step(host, outcome) for host, outcome in zip(hosts, outcomes, strict=True)]

    def connect(self, addresses: Sequence[BrokerAddress]) -> list[Step]:
        """Open and close a connection to each address."""
        outcomes = run_in_parallel([partial(_connect, address, self._seconds) for address in addresses], self._seconds)
        return [tcp_step(address, outcome) for address, outcome in zip(addresses, outcomes, strict=True)]

    def tls_handshake(self, addresses: Sequence[BrokerAddress]) -> list[Step]:
        """Do a TLS handshake with each address; without TLS the steps are "not tried"."""
        if not self.uses_tls:
            return [Step(TLS, str(address), "not tried", "connections are not encrypted") for address in addresses]
        try:
            context = tls_context(self._options)
        except OSError as error:
            step = certificate_files_step(error)
            return [Step(TLS, str(address), step.state, step.message, step.action) for address in addresses]
        tasks = [partial(tls_handshake, address.host, address.port, context, self._seconds) for address in addresses]
        steps = []
        for address, outcome in zip(addresses, run_in_parallel(tasks, 2 * self._seconds), strict=True):
            if outcome.result is None:
                step = handshake_error_step(str(address), outcome.error)
            else:
                step = certificate_step(str(address), outcome.result, self._now, self._expires_within)
            steps.append(step.with_duration(outcome.seconds))
        return steps

    def own_certificate(self) -> list[Step]:
        """Check the expiry of the client certificate, if there is one."""
        path = self._options.client.get("ssl_certfile") if self.uses_tls else None
        certificate = read_certificate(Path(path)) if path else None
        if certificate is None:
            return []
        return [certificate_step("own certificate", certificate, self._now, self._expires_within)]


def _look_up(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _connect(address: BrokerAddress, seconds: float) -> str:
    with socket.create_connection((address.host, address.port), timeout=seconds) as connection:
        return str(connection.getpeername()[0])


# --- interpretation; pure ---


def dns_step(host: str, outcome: TaskOutcome[list[str]]) -> Step:
    """The step of a DNS lookup."""
    if outcome.result:
        return Step(DNS, host, "ok", ", ".join(outcome.result)).with_duration(outcome.seconds)
    late = isinstance(outcome.error, TimeoutError)
    message = "the DNS server does not respond" if late else "the host name does not resolve on this host"
    action = "check the name, and /etc/hosts and /etc/resolv.conf of the host lagwatch runs on"
    return Step(DNS, host, "failed", message, action).with_duration(outcome.seconds)


def tcp_step(address: BrokerAddress, outcome: TaskOutcome[str]) -> Step:
    """The step of a TCP connection."""
    if outcome.result is not None:
        return Step(TCP, str(address), "ok", f"connected to {outcome.result}").with_duration(outcome.seconds)
    message, action = _port_error(outcome.error)
    return Step(TCP, str(address), "failed", message, action).with_duration(outcome.seconds)


def _port_error(error: Any) -> tuple[str, str]:
    if isinstance(error, ConnectionRefusedError):
        return (
            "connection refused",
            "nothing listens there: check that the broker is up and that this is its listener's port",
        )
    if isinstance(error, TimeoutError):
        return "no answer", "a firewall may drop the packets, or the host is down: open the port for this host"
    reason = getattr(error, "strerror", None) or type(error).__name__
    return f"cannot be reached: {reason}", "check routes and firewalls between this host and the broker"


def certificate_files_step(error: OSError) -> Step:
    """The step of certificate files that cannot be used; the error's text contains no password."""
    if isinstance(error, ssl.SSLError):
        message = f"the certificate files cannot be used ({error.reason or 'not PEM, or the wrong key password'})"
    else:
        message = f"a certificate file cannot be read: {error.strerror}"
    return Step(TLS, "", "failed", message, "check ca_file, cert_file, key_file and key_password in security.tls")
