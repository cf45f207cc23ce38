"""Certificates for JMX over TLS: files enter, the default TLS context of the gateway's JVM leaves.

RMI's TLS sockets take the JVM's default context and know no other way, so one set of files serves a whole agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lagwatch.errors import SourceError


@dataclass(frozen=True, slots=True)
class Store:
    """A file of certificates: PEM, or a Java key store with its password."""

    path: Path
    password: str | None = field(default=None, repr=False)


def use_certificates(java: Any, array: Callable[..., Any], trusts: Store | None, own: Store | None) -> None:
    """Make these the JVM's own; before its first TLS connection, which fixes them."""
    net = java.javax.net.ssl
    trust_managers = key_managers = None
    if trusts is not None:
        factory = net.TrustManagerFactory.getInstance(net.TrustManagerFactory.getDefaultAlgorithm())
        factory.init(_key_store(java, array, trusts))
        trust_managers = factory.getTrustManagers()
    if own is not None:
        keys = net.KeyManagerFactory.getInstance(net.KeyManagerFactory.getDefaultAlgorithm())
        keys.init(_key_store(java, array, own), _characters(java, array, own.password))
        key_managers = keys.getKeyManagers()
    context = net.SSLContext.getInstance("TLS")
    context.init(key_managers, trust_managers, None)
    net.SSLContext.setDefault(context)


def _key_store(jvm: Any, array: Callable[..., Any], store: Store) -> Any:
    java = jvm.java
    file = java.io.File(str(store.path))
    try:
        content = store.path.read_bytes()
    except OSError as error:
        raise SourceError(
            f"{store.path} cannot be read: {error.strerror}; look at jmx.ca_file and the stores"
        ) from None
    if not content.lstrip().startswith(b"-----BEGIN"):
        return java.security.KeyStore.getInstance(file, _characters(jvm, array, store.password))
    made = java.security.KeyStore.getInstance("PKCS12")
    made.load(None, None)
    stream = java.io.FileInputStream(file)
    certificates = java.security.cert.CertificateFactory.getInstance("X.509").generateCertificates(stream)
    stream.close()
    for number, certificate in enumerate(certificates.toArray()):
        made.setCertificateEntry(f"authority-{number}", certificate)
    return made


def _characters(java: Any, array: Callable[..., Any], password: str | None) -> Any:
    return array(java.char, *(password or ""))
