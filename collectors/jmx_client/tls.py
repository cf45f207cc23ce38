"""Loads certificate files into the default TLS context of the gateway's JVM.

RMI's TLS sockets only use the JVM's default context, so the whole agent shares one set of files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lagwatch.errors import SourceError


@dataclass(frozen=True, slots=True)
class CertificateStore:
    """A certificate file: PEM, or a Java key store with its password."""

    path: Path
    password: str | None = field(default=None, repr=False)


def use_certificates(
    java: Any, array: Callable[..., Any], trust_store: CertificateStore | None, key_store: CertificateStore | None
) -> None:
    """Set the JVM's default TLS context; must run before its first TLS connection."""
    net = java.javax.net.ssl
    trust_managers = key_managers = None
    if trust_store is not None:
        factory = net.TrustManagerFactory.getInstance(net.TrustManagerFactory.getDefaultAlgorithm())
        factory.init(_load(java, array, trust_store))
        trust_managers = factory.getTrustManagers()
    if key_store is not None:
        keys = net.KeyManagerFactory.getInstance(net.KeyManagerFactory.getDefaultAlgorithm())
        keys.init(_load(java, array, key_store), _char_array(java, array, key_store.password))
        key_managers = keys.getKeyManagers()
    context = net.SSLContext.getInstance("TLS")
    context.init(key_managers, trust_managers, None)
    net.SSLContext.setDefault(context)


def _load(jvm: Any, array: Callable[..., Any], store: CertificateStore) -> Any:
    java = jvm.java
    file = java.io.File(str(store.path))
    try:
        content = store.path.read_bytes()
    except OSError as error:
        raise SourceError(
            f"{store.path} cannot be read: {error.strerror}; check jmx.ca_file, trust_store and key_store"
        ) from None
    if not content.lstrip().startswith(b"-----BEGIN"):
        return java.security.KeyStore.getInstance(file, _char_array(jvm, array, store.password))
    store_object = java.security.KeyStore.getInstance("PKCS12")
    store_object.load(None, None)
    stream = java.io.FileInputStream(file)
    certificates = java.security.cert.CertificateFactory.getInstance("X.509").generateCertificates(stream)
    stream.close()
    for number, certificate in enumerate(certificates.toArray()):
        store_object.setCertificateEntry(f"authority-{number}", certificate)
    return store_object


def _char_array(java: Any, array: Callable[..., Any], password: str | None) -> Any:
    return array(java.char, *(password or ""))
