"""Does a TLS handshake with a broker, and explains its certificate or why the handshake failed."""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.preflight.steps import Step
from lagwatch.text import duration_text

TLS = "TLS"
_DAY = 86_400

# OpenSSL's certificate verification errors (X509_V_ERR_...).
_NOT_YET_VALID, _EXPIRED, _NO_CRL, _REVOKED = 9, 10, 3, 23
_UNTRUSTED = {2, 18, 19, 20, 21}
_WRONG_HOST = {62, 64}
_CLIENT_CERTIFICATE_WANTED = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE", "UNKNOWN_CA")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The fields of a certificate that matter to an operator."""

    subject: str
    issuer: str
    expires_at: float
    names: tuple[str, ...]


class HandshakeError(Exception):
    """A handshake that failed, with the broker's certificate if it sent one."""

    def __init__(self, cause: OSError, shown: Certificate | None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.shown = shown


def tls_handshake(host: str, port: int, context: ssl.SSLContext, seconds: float) -> Certificate:
    """Connect and do the handshake as the agent does. Raises HandshakeError or OSError."""
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as plain,
            context.wrap_socket(plain, server_hostname=host.rstrip(".")) as secured,
        ):
            return parse_certificate(secured.getpeercert() or {})
    except ssl.SSLCertVerificationError as error:
        raise HandshakeError(error, _unverified_certificate(host, port, seconds)) from None


def _unverified_certificate(host: str, port: int, seconds: float) -> Certificate | None:
    """The certificate a broker sends, not verified; no data is sent over this connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as plain,
            context.wrap_socket(plain, server_hostname=host.rstrip(".")) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
        if shown is None:
            return None
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(ssl.DER_cert_to_PEM_cert(shown))
            file.flush()
            return read_certificate(Path(file.name))
    except OSError:
        return None


def read_certificate(path: Path) -> Certificate | None:
    """The first certificate of a PEM file; None if Python cannot read it."""
    decode = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)  # Python has no public function for it
    if decode is None:
        return None
    try:
        return parse_certificate(decode(str(path)))
    except (OSError, ValueError):
        return None


def parse_certificate(fields: Mapping[str, Any]) -> Certificate:
    """Convert the dict of Python's ssl module."""
    return Certificate(
        _name(fields.get("subject", ())),
        _name(fields.get("issuer", ())),
        ssl.cert_time_to_seconds(fields["notAfter"]),
        tuple(value for _, value in fields.get("subjectAltName", ())),
    )


def _name(parts: Any) -> str:
    """A distinguished name as `CN=Example CA, O=Example`."""
    short = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C"}
    pairs = [pair for part in parts for pair in part]
    return ", ".join(f"{short.get(key, key)}={value}" for key, value in reversed(pairs)) or "no name"


# --- interpretation; pure ---


def certificate_step(target: str, certificate: Certificate, now: float, expires_within: float) -> Step:
    """The step of an accepted certificate: its issuer, and whether it expires soon."""
    left = certificate.expires_at - now
    days = f"in {plural_days(left)}" if left >= 0 else f"{duration_text(-left)} ago"
    message = f"{certificate.subject} issued by {certificate.issuer}, expires {days}"
    if left < expires_within:
        action = "renew it: once it has expired no new connection succeeds, and the whole cluster becomes stale"
        return Step(TLS, target, "warning", message, action)
    return Step(TLS, target, "ok", message)


def plural_days(seconds: float) -> str:
    """`1 day`, `29 days`; hours below a day."""
    days = int(seconds // _DAY)
    return duration_text(seconds) if days < 1 else f"{days} day{'s' if days > 1 else ''}"


def handshake_error_step(target: str, error: Exception | None) -> Step:
    """The step of a failed handshake: the cause, and the file or setting to correct."""
    message, action = _describe(target.rpartition(":")[0], error)
    return Step(TLS, target, "failed", message, action)


def _describe(host: str, error: Exception | None) -> tuple[str, str]:
    shown = error.shown if isinstance(error, HandshakeError) else None
    cause = error.cause if isinstance(error, HandshakeError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _describe_verification(host, cause, shown)
    if isinstance(cause, TimeoutError):
        return "no answer to the handshake", "the port may not speak TLS: check security.protocol"
    reason = str(getattr(cause, "reason", None) or cause.__class__.__name__)
    if any(text in reason for text in _CLIENT_CERTIFICATE_WANTED):
        return (
            f"the broker ended the handshake ({reason})",
            "it requires a client certificate that it trusts: set security.tls.cert_file and key_file",
        )
    if isinstance(cause, ssl.SSLEOFError | ConnectionResetError) or "WRONG_VERSION" in reason:
        return (
            "the port does not answer in TLS",
            "use the port of a TLS listener, or set security.protocol: PLAINTEXT or SASL_PLAINTEXT",
        )
    return f"the handshake failed ({reason})", "check security.tls and the broker's log"


def _describe_verification(
    host: str, cause: ssl.SSLCertVerificationError, shown: Certificate | None
) -> tuple[str, str]:
    code = cause.verify_code
    if code in _WRONG_HOST:
        names = f"it is for {', '.join(shown.names) or shown.subject}" if shown else "it names other hosts"
        return (
            f"host name mismatch: the certificate does not name {host}; {names}",
            "use one of its names, get a certificate that names this host, or set security.tls.check_hostname: false",
        )
    if code in _UNTRUSTED:
        issuer = f"issued by {shown.issuer}" if shown else "issued by a CA"
        return (
            f"untrusted issuer: the certificate is {issuer}, which is not a trusted CA here",
            "set security.tls.ca_file to the PEM file of that CA",
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return f"the broker's certificate {when}", "renew it at the broker; if it is new, check this host's clock"
    if code in (_REVOKED, _NO_CRL):
        what = (
            "was revoked" if code == _REVOKED else "cannot be checked: security.tls.crl_file has no list of its issuer"
        )
        return (
            f"the broker's certificate {what}",
            "renew the certificate at the broker, or update security.tls.crl_file",
        )
    return f"the certificate was not accepted: {cause.verify_message}", "check security.tls"
