"""JMX collectors for clusters on loopback, and independent reads to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jmxquery import JMXConnection, JMXQuery

from collectors.jmx_beans.connection_interface import JmxConnection
from collectors.jmx_brokers import JmxBrokers
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoints
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from collectors.jmx_client.jvm import GatewayOptions
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.protocols import Collected

DEADLINE_SECONDS = 30.0  # a busy machine must not look like a hung node; tests of hung nodes set their own deadlines
PATIENT = GatewayOptions(deadline_seconds=40.0)


def listed(kafka: KafkaCluster) -> ConfiguredEndpoints:
    """All nodes of a cluster."""
    where = {node.id: ("127.0.0.1", node.jmx_port) for node in kafka.nodes.values()}
    brokers = {node.id for node in kafka.brokers}
    return ConfiguredEndpoints(
        {node: address for node, address in where.items() if node in brokers},
        {node: address for node, address in where.items() if node not in brokers},
    )


def collector(
    kafka: KafkaCluster, connect: JmxGateway | Callable[[str, int], JmxConnection], **options: Any
) -> JmxBrokers:
    """The JMX job of a cluster."""
    if isinstance(connect, JmxGateway):
        gateway = connect

        def connect(host: str, port: int) -> JmxConnection:
            return gateway.connect(RmiAddress(host, port))

    options = {"deadline_seconds": DEADLINE_SECONDS, **options}
    return JmxBrokers("east", connect, Endpoints(listed(kafka)), **options)


def until_complete(jmx: JmxBrokers, attempts: int = 10) -> Collected:
    """The first poll in which every node responded; a busy machine may need several."""
    for _ in range(attempts):
        collected = jmx.collect(0)
        if not collected.failures:
            return collected
    raise AssertionError(f"nodes do not answer: {collected.failures}")


def rows_of(collected: Collected, table: str) -> list[dict[str, Any]]:
    """The rows of a table without null values."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for batch in collected.batches
        if batch.table == table
        for row in batch.rows.to_pylist()
    ]


def by_node(collected: Collected) -> dict[int, dict[str, Any]]:
    """The rows of `broker` by node."""
    return {row["broker"]: row for row in rows_of(collected, "broker")}


def read_with_jmxquery(port: int, beans: Iterable[tuple[str, Sequence[str]]]) -> dict[tuple[str, str], Any]:
    """Attributes of beans, read by jmxquery in its own JVM."""
    queries = [JMXQuery(bean, attribute) for bean, attributes in beans for attribute in attributes]
    connection = JMXConnection(f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi")
    found = connection.query(queries, timeout=60)
    return {(metric.mBeanName, metric.attribute): metric.value for metric in found}
