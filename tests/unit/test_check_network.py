"""`lagwatch check`, network: host names, ports, certificates, and peers that never respond."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from collectors.kafka_client.connection import ConnectionOptions
from collectors.preflight.cluster import CheckTarget, broker_step, check_cluster
from collectors.preflight.network import BrokerAddress, Network, certificate_files_step, dns_step, tcp_step
from collectors.preflight.steps import Step, TaskOutcome, run_in_parallel
from collectors.preflight.tls import (
    Certificate,
    HandshakeError,
    certificate_step,
    handshake_error_step,
    parse_certificate,
)
from lagwatch.errors import SourceError

DAY = 86_400
CERTIFICATE = Certificate("CN=kafka1", "CN=Example CA, O=Example", 100 * DAY, ("kafka1", "kafka1.example.com"))


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka1:9092", BrokerAddress("kafka1", 9092)),
        ("[::1]:9092", BrokerAddress("::1", 9092)),
        ("10.0.0.1:1", BrokerAddress("10.0.0.1", 1)),
    ],
)
def test_an_address_is_read_and_written(text: str, address: BrokerAddress) -> None:
    assert BrokerAddress.of(text) == address
    assert str(address) == text


def test_a_silent_name_server_is_distinguished_from_a_wrong_name() -> None:
    late: TaskOutcome[list[str]] = TaskOutcome(None, TimeoutError(), 5.0)
    wrong: TaskOutcome[list[str]] = TaskOutcome(None, socket.gaierror(-2), 0.1)

    assert dns_step("kafka1", late).message == "the DNS server does not respond"
    assert dns_step("kafka1", wrong).message == "the host name does not resolve on this host"
    assert dns_step("kafka1", TaskOutcome(["10.0.0.1", "10.0.0.2"], None, 0.1)).message == "10.0.0.1, 10.0.0.2"


def test_a_closed_port_is_distinguished_from_a_firewall() -> None:
    address = BrokerAddress("kafka1", 9092)

    assert tcp_step(address, TaskOutcome(None, ConnectionRefusedError(), 0.1)).message == "connection refused"
    assert "firewall" in tcp_step(address, TaskOutcome(None, TimeoutError(), 5.0)).action
    unrouted = tcp_step(address, TaskOutcome(None, OSError(101, "Network is unreachable"), 0.1))
    assert unrouted.message == "cannot be reached: Network is unreachable"


@pytest.mark.parametrize(
    ("left_days", "state", "when"),
    [
        (30.5, "ok", "in 30 days"),
        (29.9, "warning", "in 29 days"),
        (0.5, "warning", "in 12h"),
        (-2, "warning", "2d ago"),
    ],
)
def test_a_certificate_that_ends_within_thirty_days_is_a_warning(left_days: float, state: str, when: str) -> None:
    now = CERTIFICATE.expires_at - left_days * DAY

    step = certificate_step("kafka1:9093", CERTIFICATE, now, 30 * DAY)

    assert step.state == state
    assert step.message == f"CN=kafka1 issued by CN=Example CA, O=Example, expires {when}"


def _not_accepted(code: int) -> HandshakeError:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_code, cause.verify_message = code, "some words of OpenSSL"
    return HandshakeError(cause, CERTIFICATE)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (_not_accepted(20), "untrusted issuer: the certificate is issued by CN=Example CA, O=Example"),
        (_not_accepted(18), "untrusted issuer"),
        (
            _not_accepted(62),
            "host name mismatch: the certificate does not name kafka2; it is for kafka1, kafka1.example",
        ),
        (_not_accepted(10), "the broker's certificate has expired"),
        (_not_accepted(23), "the broker's certificate was revoked"),
        (_not_accepted(1), "the certificate was not accepted: some words of OpenSSL"),
        (ssl.SSLEOFError(8, "EOF"), "the port does not answer in TLS"),
        (TimeoutError(), "no answer to the handshake"),
        (OSError(9, "odd"), "the handshake failed (OSError)"),
    ],
)
def test_a_failed_handshake_says_what_is_wrong(error: Exception, message: str) -> None:
    step = handshake_error_step("kafka2:9093", error)

    assert step.state == "failed"
    assert step.message.startswith(message)
    assert step.action


def test_pythons_certificate_is_read() -> None:
    fields = {
        "subject": ((("commonName", "kafka1"),),),
        "issuer": ((("organizationName", "Example"),), (("commonName", "Example CA"),)),
        "notAfter": "Apr 11 00:00:00 1970 GMT",
        "subjectAltName": (("DNS", "kafka1"), ("DNS", "kafka1.example.com")),
    }

    assert parse_certificate(fields) == CERTIFICATE


def test_unusable_files_do_not_reveal_the_key_password() -> None:
    options = ConnectionOptions(
        ("127.0.0.1:1",),
        {"security_protocol": "SSL", "ssl_cafile": "/dev/null", "ssl_certfile": "/dev/null", "ssl_password": "s3cret"},
    )

    [step] = Network(options, 1.0, 0.0, 0.0).tls_handshake([BrokerAddress("127.0.0.1", 1)])

    assert step.state == "failed"
    assert "cert_file" in step.action
    assert "s3cret" not in repr(step)
    assert certificate_files_step(FileNotFoundError(2, "No such file or directory")).message.endswith(
        "No such file or directory"
    )


def test_an_encrypted_key_without_its_password_is_refused_without_a_prompt(tmp_path: Path) -> None:
    key, certificate = tmp_path / "client.key", tmp_path / "client.pem"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:s3cret", "-subj", "/CN=lagwatch"]
    subprocess.run([*new, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    files = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key), "ssl_password": None}
    options = ConnectionOptions(("127.0.0.1:1",), {"security_protocol": "SSL"} | files)

    [step] = Network(options, 1.0, 0.0, 0.0).tls_handshake([BrokerAddress("127.0.0.1", 1)])

    assert step.state == "failed"
    assert "key_password" in step.action


def test_a_broker_is_reported_with_the_first_step_that_fails() -> None:
    address = BrokerAddress("kafka2", 9092)
    dns = Step("DNS", "kafka2", "failed", "the host name does not resolve on this host")
    soon = Step("TLS", "kafka2:9092", "warning", "expires in 3 days", "renew it")

    assert broker_step(2, address, dns, None).message == (
        "not reached at its advertised address: DNS: the host name does not resolve on this host"
    )
    assert broker_step(2, address, None, SourceError("no answer within 5.0 s")).state == "failed"
    assert broker_step(2, address, soon, None).message == "reached; expires in 3 days"
    assert broker_step(2, address, None, None).target == "2 at kafka2:9092"


def test_a_peer_that_never_responds_costs_only_its_timeout(silent_port: int) -> None:
    target = CheckTarget("east", ConnectionOptions((f"127.0.0.1:{silent_port}",), {"security_protocol": "PLAINTEXT"}))
    start = time.monotonic()

    check = check_cluster(target, seconds=0.3, expires_within=0, now=0)

    assert time.monotonic() - start < 20, "kafka-python itself waits 30 s"
    steps = {step.step: step for step in check.steps}
    assert steps["login"].state == "failed"
    assert "no answer within 0." in steps["login"].message  # what was left of 0.3 s
    assert steps["Metadata"].message == "the login failed"
    assert check.exit_code == 2


def test_a_tls_handshake_that_is_never_answered_ends(silent_port: int) -> None:
    target = CheckTarget("east", ConnectionOptions((f"127.0.0.1:{silent_port}",), {"security_protocol": "SSL"}))

    check = check_cluster(target, seconds=0.3, expires_within=0, now=0)

    steps = {step.step: step for step in check.steps}
    assert steps["TLS"].message == "no answer to the handshake"
    assert steps["login"].message == "TLS failed for every bootstrap address"
    assert check.exit_code == 2


def test_work_that_never_ends_does_not_hold_up_the_rest() -> None:
    never = threading.Event()

    quick, slow, broken = run_in_parallel([lambda: 1, lambda: int(never.wait()), lambda: 1 // 0], 0.2)
    never.set()

    assert quick.result == 1
    assert isinstance(slow.error, TimeoutError)
    assert isinstance(broken.error, ZeroDivisionError)
