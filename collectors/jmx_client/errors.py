"""Why JMX could not be asked, in words: a chain of Java exceptions enters, one line leaves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_Chain = Sequence[tuple[str, str]]  # class and message, the outermost first


def error_words(chain: _Chain) -> str:
    """The most telling of the reasons; foreign text in quotes."""
    for says, words in _REASONS:
        for kind, message in chain:
            if says(kind.rpartition(".")[2], message):
                return words.format(message=_short(message))
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
        "the port does not speak RMI: it may want TLS (registry_tls), or be another port",
    ),
    (
        lambda _, message: "JRMP connection establishment" in message and "EOF" in message,
        "the port does not speak RMI: it may be another port",
    ),
    (lambda _, message: "port out of range" in message, '"{message}": look at port in clusters[].jmx'),
    (lambda kind, _: kind == "NotBoundException", "an RMI registry without JMX: is it the JMX port?"),
    (lambda kind, _: kind == "UnknownHostException", 'host not found: "{message}"'),
    (lambda _, message: "Connection refused" in message, "connection refused"),
    (lambda kind, _: kind == "SocketTimeoutException", "no answer in time"),
    (lambda kind, _: kind in ("NoSuchObjectException", "EOFException"), "connection lost: the JVM was restarted"),
    (lambda _, message: "Connection reset" in message or "Broken pipe" in message, "connection lost"),
    (lambda kind, _: kind == "MalformedObjectNameException", 'not a bean name: "{message}"'),
    (lambda kind, _: kind == "InstanceNotFoundException", 'no such bean: "{message}"'),
)
