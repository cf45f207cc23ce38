"""JMX with TLS and a password, and the same beans over Jolokia."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.jmx_brokers import JmxBrokers
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoints
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from collectors.jmx_client.jolokia import JolokiaAddress, JolokiaConnection
from collectors.jmx_client.jvm import GatewayOptions
from collectors.jmx_client.tls import CertificateStore
from lagwatch.errors import SourceError
from tests.harness.jmx import by_node, until_complete
from tests.harness.secured_jmx import PASSWORD, STORE_PASSWORD, USER, SecuredJmx, secured_jmx
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredJmx]:
    with secured_jmx(tmp_path_factory.mktemp("jmx")) as node:
        yield node


@pytest.fixture(scope="module")
def gateway(secured: SecuredJmx) -> Iterator[JmxGateway]:
    gateway = JmxGateway(options(secured, CertificateStore(secured.tls.ca)))
    yield gateway
    gateway.close()


def options(secured: SecuredJmx, trusts: CertificateStore | None) -> GatewayOptions:
    return GatewayOptions(
        deadline_seconds=40, trust_store=trusts, key_store=CertificateStore(secured.client_store, STORE_PASSWORD)
    )


def address(secured: SecuredJmx, password: str = PASSWORD) -> RmiAddress:
    return RmiAddress("127.0.0.1", secured.port, USER, password, registry_tls=True)


def rmi_job(secured: SecuredJmx, gateway: JmxGateway) -> JmxBrokers:
    listed = ConfiguredEndpoints({1: ("127.0.0.1", secured.port)}, {})
    return JmxBrokers("east", lambda *_: gateway.connect(address(secured)), Endpoints(listed), deadline_seconds=30)


def jolokia(secured: SecuredJmx, password: str = PASSWORD, path: str = "/jolokia") -> JolokiaConnection:
    return JolokiaConnection(
        JolokiaAddress("127.0.0.1", secured.jolokia_port, path, username=USER, password=password), timeout_seconds=30
    )


def test_beans_are_read_over_tls_with_a_password(secured: SecuredJmx, gateway: JmxGateway) -> None:
    row = by_node(until_complete(rmi_job(secured, gateway)))[1]
    assert row["jmx_cluster_id"] == secured.kafka.cluster_id
    assert row["roles"] == "broker,controller"


def test_a_java_trust_store_works_like_pem(secured: SecuredJmx) -> None:
    gateway = JmxGateway(options(secured, CertificateStore(secured.trust_store, STORE_PASSWORD)))
    try:
        gateway.connect(address(secured)).close()
        assert gateway.stub_address(address(secured)) == ("127.0.0.1", secured.port)
    finally:
        gateway.close()


def test_a_wrong_password_is_reported_without_showing_it(
    secured: SecuredJmx, gateway: JmxGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(SourceError, match="JMX refused the login: user name or password is wrong") as error:
        gateway.connect(address(secured, password="wrong-sesame"))
    chain = f"{error.value!r} {error.value.__cause__!r} {error.value.__context__!r}"
    assert "wrong-sesame" not in chain + caplog.text
    with pytest.raises(SourceError, match="JMX refused the login"):
        gateway.connect(RmiAddress("127.0.0.1", secured.port, registry_tls=True))


def test_no_secret_is_in_the_process_list(secured: SecuredJmx, gateway: JmxGateway) -> None:
    gateway.connect(address(secured)).close()
    shown = Path(f"/proc/{gateway.pid}/cmdline").read_text() + Path(f"/proc/{gateway.pid}/environ").read_text()
    listed = subprocess.run(["ps", "-o", "args", "-p", str(gateway.pid)], capture_output=True, text=True, check=True)
    for secret in (PASSWORD, STORE_PASSWORD):
        assert secret not in shown + listed.stdout


def test_a_ca_that_did_not_sign_the_certificate_is_not_trusted(secured: SecuredJmx) -> None:
    gateway = JmxGateway(options(secured, CertificateStore(secured.tls.wrong_ca)))
    try:
        with pytest.raises(SourceError, match="its certificate is not trusted: set jmx"):
            gateway.connect(address(secured))
    finally:
        gateway.close()


def test_a_registry_that_requires_tls_is_reported_to_a_client_without_tls(
    secured: SecuredJmx, gateway: JmxGateway
) -> None:
    with pytest.raises(SourceError, match="registry_tls"):
        gateway.connect(RmiAddress("127.0.0.1", secured.port, USER, PASSWORD))


def test_a_wrong_store_password_is_reported(secured: SecuredJmx) -> None:
    gateway = JmxGateway(options(secured, CertificateStore(secured.trust_store, "wrong-store-password")))
    with pytest.raises(SourceError) as error:
        gateway.connect(address(secured))
    assert "wrong-store-password" not in str(error.value)
    assert str(error.value) == "the password of jmx.trust_store or jmx.key_store is wrong"


def test_jolokia_gives_the_same_rows_as_rmi(secured: SecuredJmx, gateway: JmxGateway) -> None:
    by_rmi = rmi_job(secured, gateway)
    by_http = JmxBrokers(
        "east",
        lambda *_: jolokia(secured),
        Endpoints(ConfiguredEndpoints({1: ("127.0.0.1", 1)}, {})),
        deadline_seconds=30,
    )
    # A meter has no value in the first seconds of a JVM.
    wait_until(lambda: "request_handler_idle" in by_node(until_complete(by_rmi))[1], 60)
    for _ in range(2):
        rmi, http = until_complete(by_rmi), until_complete(by_http)
    ours, theirs = by_node(rmi)[1], by_node(http)[1]
    sometimes = {"gc_mean_ms"}  # where garbage was collected since the poll before
    assert theirs.keys() - sometimes == ours.keys() - sometimes
    for name in ("started_ms", "broker_state", "jmx_partitions", "raft_state", "raft_epoch", "heap_max_bytes", "roles"):
        assert theirs[name] == ours[name], name
    assert [batch.table for batch in http.batches] == [batch.table for batch in rmi.batches]
    names = ["kafka.log:type=LogManager,*", "java.lang:type=GarbageCollector,*"]
    assert jolokia(secured).names(names) == gateway.connect(address(secured)).names(names)
    beans = ["java.lang:type=Memory", "no.such:a=b", "kafka.server:type=raft-metrics"]
    assert jolokia(secured).attributes(beans) == gateway.connect(address(secured)).attributes(beans)


def test_jolokia_errors_are_reported_without_the_secret(secured: SecuredJmx) -> None:
    with pytest.raises(SourceError, match="Jolokia refused the login") as error:
        jolokia(secured, password="wrong-sesame").names(["*:*"])
    assert "wrong-sesame" not in str(error.value)
    with pytest.raises(SourceError, match=r"Jolokia refused: .*Invalid object name"):
        jolokia(secured).names(["nonsense"])
    with pytest.raises(SourceError, match=r"check path|not Jolokia's"):
        jolokia(secured, path="/elsewhere").names(["*:*"])
    closed = JolokiaConnection(JolokiaAddress("127.0.0.1", 1))
    with pytest.raises(SourceError, match="connection refused"):
        closed.names(["*:*"])
