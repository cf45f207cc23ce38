"""Builds the JMX gateway that all clusters share, and the JMX collector of each, from the settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from collectors.jmx_beans.beans import DEFAULT_BEANS, Aggregation, Bean, Role, topic_beans
from collectors.jmx_beans.connection_interface import JmxConnection
from collectors.jmx_brokers import Connect, JmxBrokers
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoints
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from collectors.jmx_client.jolokia import JolokiaAddress, JolokiaConnection
from collectors.jmx_client.jvm import GatewayOptions
from collectors.jmx_client.tls import CertificateStore
from collectors.kafka_client.connection import KafkaConnection
from lagwatch.assemble.catalogue import catalogue_of
from lagwatch.config import ClusterSettings, Settings
from lagwatch.config.jmx import ClusterJmx, Jmx, UserBean

_HOW = {"value": Aggregation.VALUE, "text": Aggregation.VALUE, "sum": Aggregation.SUM, "rate": Aggregation.RATE}


class JmxAssembly:
    """The JMX gateway that all clusters share. The JVM starts on first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.jmx
        self._catalogue = catalogue_of(settings)
        self.gateway = JmxGateway(gateway_options(settings.jmx))

    def collector(self, cluster: ClusterSettings, jmx: ClusterJmx, connection: KafkaConnection | None) -> JmxBrokers:
        """The JMX collector of one cluster; it looks up the brokers over the Kafka connection."""
        own = tuple(user_bean(bean) for bean in self._settings.beans)
        return JmxBrokers(
            cluster.name,
            self.connect(jmx),
            endpoints_of(jmx, connection),
            beans=(*DEFAULT_BEANS, *(topic_beans() if jmx.topics else ()), *own),
            tables=self._catalogue,
            deadline_seconds=self._settings.deadline.total_seconds(),
        )

    def connect(self, jmx: ClusterJmx) -> Connect:
        """A function that opens a JMX connection to a node of a cluster."""
        username, password = jmx.username, jmx.reveal_password()

        def by_rmi(host: str, port: int) -> JmxConnection:
            return self.gateway.connect(_rmi_address(jmx, host, port))

        def by_http(host: str, port: int) -> JmxConnection:
            ca_file = str(self._settings.ca_file) if self._settings.ca_file else None
            address = JolokiaAddress(host, port, jmx.path, jmx.registry_tls, username, password, ca_file)
            return JolokiaConnection(address, timeout_seconds=self._settings.deadline.total_seconds())

        return by_rmi if jmx.via == "rmi" else by_http

    def stub_of(self, jmx: ClusterJmx) -> Callable[[str, int], tuple[str, int] | None]:
        """A function that returns the address to which the RMI registry of a node redirects clients."""
        return lambda host, port: self.gateway.stub_address(_rmi_address(jmx, host, port))

    def close(self) -> None:
        """Stop the JVM."""
        self.gateway.close()


def _rmi_address(jmx: ClusterJmx, host: str, port: int) -> RmiAddress:
    return RmiAddress(host, port, jmx.username, jmx.reveal_password(), jmx.registry_tls)


def gateway_options(jmx: Jmx) -> GatewayOptions:
    """The options to start the JVM with."""
    trusts = jmx.ca_file or jmx.trust_store
    return GatewayOptions(
        jmx.java,
        int(jmx.heap),
        jmx.deadline.total_seconds(),
        _store(trusts, jmx.reveal_trust_store_password()),
        _store(jmx.key_store, jmx.reveal_key_store_password()),
    )


def _store(path: Path | None, password: str | None) -> CertificateStore | None:
    return None if path is None else CertificateStore(path, password)


def endpoints_of(jmx: ClusterJmx, connection: KafkaConnection | None) -> Endpoints:
    """The JMX endpoints of a cluster; it looks up the brokers over the Kafka connection."""
    return Endpoints(listed_endpoints(jmx), connection)


def listed_endpoints(jmx: ClusterJmx) -> ConfiguredEndpoints:
    """The endpoints that the settings of a cluster list."""
    return ConfiguredEndpoints(
        {node: _host_and_port(address) for node, address in jmx.brokers.items()},
        {node: _host_and_port(address) for node, address in jmx.controllers.items()},
        jmx.port,
    )


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def user_bean(bean: UserBean) -> Bean:
    """A user's bean as the collector expects it."""
    return Bean(
        bean.bean,
        bean.attribute,
        bean.field,
        _HOW[bean.how],
        Role.ANY,
        bean.table or "broker",
        tuple(bean.labels.items()),
    )
