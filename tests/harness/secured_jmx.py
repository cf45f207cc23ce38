"""A Kafka node with TLS and a password on JMX, and a Jolokia agent."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.tls_files import TlsFiles, make_tls_files
from tests.harness.jolokia import jolokia_jar
from tests.harness.kafka import running_kafka
from tests.harness.ports import server_port

USER, PASSWORD = "monitor", "sesame-4711"
STORE_PASSWORD = "store-0815"
_JMX = "com.sun.management.jmxremote"


@dataclass(frozen=True, slots=True)
class SecuredJmx:
    """The cluster, its certificates as PEM and as Java key stores, and the port of Jolokia."""

    kafka: KafkaCluster
    tls: TlsFiles
    trust_store: Path
    client_store: Path
    jolokia_port: int

    @property
    def port(self) -> int:
        return self.kafka.node(1).jmx_port


@contextmanager
def secured_jmx(folder: Path) -> Iterator[SecuredJmx]:
    """One node; its JMX requires a client certificate and a password, its registry uses TLS too."""
    tls = make_tls_files(folder / "tls", "monitor")
    broker, client = _key_store(tls.broker, folder / "broker.p12"), _client_store(tls, folder)
    trust = _trust_store(tls.ca, folder / "trust.p12")
    secrets = {"password": f"{USER} {PASSWORD}\n", "access": f"{USER} readonly\n"}
    for name, text in secrets.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    ssl = folder / "ssl.properties"
    ssl.write_text(
        f"javax.net.ssl.keyStore={broker}\njavax.net.ssl.keyStorePassword={STORE_PASSWORD}\n"
        f"javax.net.ssl.trustStore={trust}\njavax.net.ssl.trustStorePassword={STORE_PASSWORD}\n"
    )
    ssl.chmod(0o600)
    jolokia = server_port()
    options = [
        f"-D{_JMX}.authenticate=true",
        f"-D{_JMX}.password.file={folder / 'password'}",
        f"-D{_JMX}.access.file={folder / 'access'}",
        f"-D{_JMX}.ssl=true",
        f"-D{_JMX}.ssl.need.client.auth=true",
        f"-D{_JMX}.registry.ssl=true",
        f"-D{_JMX}.ssl.config.file={ssl}",
        f"-javaagent:{jolokia_jar()}=port={jolokia},host=127.0.0.1,user={USER},password={PASSWORD}",
    ]
    with running_kafka(1, java_options=options) as kafka:
        yield SecuredJmx(kafka, tls, trust, client, jolokia)


def _key_store(pem: Path, store: Path) -> Path:
    _run("openssl", "pkcs12", "-export", "-in", pem, "-out", store, "-passout", f"pass:{STORE_PASSWORD}")
    return store


def _client_store(tls: TlsFiles, folder: Path) -> Path:
    both = folder / "client.pem"
    both.write_text(tls.client_key.read_text() + tls.client_certificate.read_text())
    return _key_store(both, folder / "client.p12")


def _trust_store(ca: Path, store: Path) -> Path:
    """Create key stores with keytool: those of openssl have no trusted entry for Java."""
    keytool = shutil.which("keytool")
    assert keytool is not None, "keytool comes with every Java"
    _run(
        keytool,
        "-importcert",
        "-noprompt",
        "-alias",
        "ca",
        "-file",
        ca,
        "-keystore",
        store,
        "-storepass",
        STORE_PASSWORD,
    )
    return store


def _run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=120)
