"""A TLS handshake with a broker: what its certificate says, or why it was not accepted."""

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

# OpenSSL's numbers for what is wrong with a certificate (X509_V_ERR_...).
_NOT_YET_VALID, _EXPIRED, _NO_CRL, _REVOKED = 9, 10, 3, 23
_UNTRUSTED = {2, 18, 19, 20, 21}
_WRONG_HOST = {62, 64}
_CLIENT_CERTIFICATE_WANTED = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE", "UNKNOWN_CA")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The part of a certificate that an operator looks at."""

    subject: str
    issuer: str
    expires_at: float
    names: tuple[str, ...]


class HandshakeError(Exception):
    """A handshake that failed, with the certificate that was shown, where one was."""

    def __init__(self, cause: OSError, shown: Certificate | None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.shown = shown


def shake_hands(host: str, port: int, context: ssl.SSLContext, seconds: float) -> Certificate:
    """Connect and do the handshake as the agent does it. Raises HandshakeError or OSError."""
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as plain,
            context.wrap_socket(plain, server_hostname=host.rstrip(".")) as secured,
        ):
            return certificate_of(secured.getpeercert() or {})
    except ssl.SSLCertVerificationError as error:
        raise HandshakeError(error, _shown_certificate(host, port, seconds)) from None


def _shown_certificate(host: str, port: int, seconds: float) -> Certificate | None:
    """The certificate a broker shows, without trust in it: nothing is sent to a peer that was not verified."""
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
    """The first certificate of a PEM file; None where Python cannot read it."""
    decode = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)  # Python has no public way to do it
    if decode is None:
        return None
    try:
        return certificate_of(decode(str(path)))
    except (OSError, ValueError):
        return None


def certificate_of(fields: Mapping[str, Any]) -> Certificate:
    """From the dict of Python's ssl module."""
    return Certificate(
        _name(fields.get("subject", ())),
        _name(fields.get("issuer", ())),
        ssl.cert_time_to_seconds(fields["notAfter"]),
        tuple(value for _, value in fields.get("subjectAltName", ())),
    )


def _name(parts: Any) -> str:
    """`CN=Example CA, O=Example` of a distinguished name."""
    short = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C"}
    pairs = [pair for part in parts for pair in part]
    return ", ".join(f"{short.get(key, key)}={value}" for key, value in reversed(pairs)) or "nobody"


# --- what it means; pure ---


def judge_certificate(target: str, certificate: Certificate, now: float, expires_within: float) -> Step:
    """A certificate that was accepted: who issued it, and whether it ends soon."""
    left = certificate.expires_at - now
    days = f"in {plural_days(left)}" if left >= 0 else f"{duration_text(-left)} ago"
    says = f"{certificate.subject} issued by {certificate.issuer}, expires {days}"
    if left < expires_within:
        do = "renew it: when it has expired no new connection is made, and all of the cluster goes stale"
        return Step(TLS, target, "warning", says, do)
    return Step(TLS, target, "ok", says)


def plural_days(seconds: float) -> str:
    """`1 day`, `29 days`; hours below a day."""
    days = int(seconds // _DAY)
    return duration_text(seconds) if days < 1 else f"{days} day{'s' if days > 1 else ''}"


def judge_handshake_error(target: str, error: Exception | None) -> Step:
    """A handshake that failed: what is wrong, and whose file or setting mends it."""
    says, do = _explain(target.rpartition(":")[0], error)
    return Step(TLS, target, "failed", says, do)


def _explain(host: str, error: Exception | None) -> tuple[str, str]:
    shown = error.shown if isinstance(error, HandshakeError) else None
    cause = error.cause if isinstance(error, HandshakeError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _explain_verification(host, cause, shown)
    if isinstance(cause, TimeoutError):
        return "no answer to the handshake", "the port may not speak TLS: look at security.protocol"
    reason = str(getattr(cause, "reason", None) or cause.__class__.__name__)
    if any(text in reason for text in _CLIENT_CERTIFICATE_WANTED):
        return (
            f"the broker ended the handshake ({reason})",
            "it wants a certificate of this client that it trusts: set security.tls.cert_file and key_file",
        )
    if isinstance(cause, ssl.SSLEOFError | ConnectionResetError) or "WRONG_VERSION" in reason:
        return (
            "the port does not answer in TLS",
            "use the port of a TLS listener, or set security.protocol: PLAINTEXT or SASL_PLAINTEXT",
        )
    return f"the handshake failed ({reason})", "look at security.tls and at the broker's log"


def _explain_verification(host: str, cause: ssl.SSLCertVerificationError, shown: Certificate | None) -> tuple[str, str]:
    code = cause.verify_code
    if code in _WRONG_HOST:
        names = f"it is for {', '.join(shown.names) or shown.subject}" if shown else "it is for other names"
        return (
            f"host name mismatch: the certificate does not name {host}; {names}",
            "use a name it holds, get a certificate that names this host, or set security.tls.check_hostname: false",
        )
    if code in _UNTRUSTED:
        issuer = f"issued by {shown.issuer}" if shown else "issued by an authority"
        return (
            f"untrusted issuer: the certificate is {issuer}, which is not among the authorities trusted here",
            "set security.tls.ca_file to the PEM file of that authority",
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return f"the broker's certificate {when}", "renew it at the broker; if it is new, look at this host's clock"
    if code in (_REVOKED, _NO_CRL):
        what = (
            "was revoked" if code == _REVOKED else "cannot be held against security.tls.crl_file: no list of its issuer"
        )
        return (
            f"the broker's certificate {what}",
            "renew the certificate at the broker, or the file of revoked ones here",
        )
    return f"the certificate was not accepted: {cause.verify_message}", "look at security.tls"
