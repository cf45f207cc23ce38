"""Translates a chain of Java exceptions into a one-line reason for operators. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_Chain = Sequence[tuple[str, str]]  # class and message, outermost first


def describe_java_error(chain: _Chain) -> str:
    """The most specific reason in the chain; text from Java is quoted."""
    for matches, reason in _REASONS:
        for kind, message in chain:
            if matches(kind.rpartition(".")[2], message):
                return reason.format(message=_short(message))
    kind, message = chain[-1] if chain else ("unknown", "")
    return f'{kind.rpartition(".")[2]}: "{_short(message)}"'


def _short(message: str) -> str:
    return " ".join(message.split())[:200]


_REASONS: tuple[tuple[Callable[[str, str], bool], str], ...] = (
    (
        lambda kind, message: "certification path" in message or "PKIX" in message or kind == "CertificateException",
        "its certificate is not trusted: set jmx.ca_file or jmx.trust_store",
    ),
    (lambda kind, _: kind == "SSLHandshakeException", 'TLS handshake failed: "{message}"'),
    (
        lambda _, message: "Authentication failed" in message or "Credentials required" in message,
        "JMX refused the login: user name or password is wrong, or missing",
    ),
    (lambda kind, _: kind == "SecurityException", 'JMX refused: "{message}"'),
    (
        lambda kind, message: kind == "UnrecoverableKeyException" or "password was incorrect" in message,
        "the password of jmx.trust_store or jmx.key_store is wrong",
    ),
    (
        lambda _, message: "non-JRMP server" in message,
        "the port does not speak RMI: it may need TLS (registry_tls), or be the wrong port",
    ),
    (
        lambda _, message: "JRMP connection establishment" in message and "EOF" in message,
        "the port does not speak RMI: it may be the wrong port",
    ),
    (lambda _, message: "port out of range" in message, '"{message}": check port in clusters[].jmx'),
    (lambda kind, _: kind == "NotBoundException", "an RMI registry without JMX: check that this is the JMX port"),
    (lambda kind, _: kind == "UnknownHostException", 'host not found: "{message}"'),
    (lambda _, message: "Connection refused" in message, "connection refused"),
    (lambda kind, _: kind == "SocketTimeoutException", "no answer in time"),
    (lambda kind, _: kind in ("NoSuchObjectException", "EOFException"), "connection lost: the JVM restarted"),
    (lambda _, message: "Connection reset" in message or "Broken pipe" in message, "connection lost"),
    (lambda kind, _: kind == "MalformedObjectNameException", 'not a bean name: "{message}"'),
    (lambda kind, _: kind == "InstanceNotFoundException", 'no such bean: "{message}"'),
)
