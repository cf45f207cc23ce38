"""One JMX poll of three brokers, compared with jmxquery, which starts a JVM for every query; and fifteen endpoints.

Both read the same attributes of the same beans. Asserts that both find the same beans, but no times: a busy machine would
fail them. CPU is that of this process and of the JVMs; the CPU of the brokers is counted for neither.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from itertools import cycle, islice

from collectors.jmx_brokers import Connect, JmxBrokers
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoints
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.cpu import CpuCost, cpu_of
from tests.harness.jmx import collector, read_with_jmxquery, until_complete

POLLS, QUERIES, ENDPOINTS = 21, 3, 15
CPU_AIM, WALL_AIM, MANY_AIM_SECONDS = 20, 10, 2.0


def test_a_poll_costs_a_small_part_of_what_jmxquery_costs(start_kafka: Callable[..., KafkaCluster]) -> None:
    kafka = start_kafka(3)
    kafka.create_topic("bench", partitions=12, replication=3)
    kafka.produce("bench", dict.fromkeys(range(12), 100))
    gateway = JmxGateway()
    try:
        jmx = collector(kafka, gateway, deadline_seconds=30)
        ours = _median_poll(jmx, gateway)
        theirs, queried, found = _jmxquery(kafka, jmx)
        many = JmxBrokers("bench", _by(gateway), Endpoints(_many(kafka)), deadline_seconds=30)
        fifteen = _median_poll(many, gateway)
        memory = _resident_mb(gateway.pid or 0)
    finally:
        gateway.close()
    print(
        f"\nOne poll of three brokers, {queried} beans in all (median of {POLLS} polls, of {QUERIES} of jmxquery's)\n"
    )
    print("| | wall s | CPU s |\n|---|---|---|")
    print(f"| lagwatch, one JVM that stays | {ours.wall:.3f} | {ours.cpu:.3f} |")
    print(f"| jmxquery 0.6.0, a JVM a query | {theirs.wall:.2f} | {theirs.cpu:.2f} |")
    print(f"| ratio | {theirs.wall / ours.wall:.0f} | {theirs.cpu / ours.cpu:.0f} |")
    met = "met" if theirs.cpu >= CPU_AIM * ours.cpu and theirs.wall >= WALL_AIM * ours.wall else "NOT met"
    print(f"\nAim, at least {CPU_AIM} times less CPU and {WALL_AIM} times less wall: {met}.")
    met = "met" if fifteen.wall < MANY_AIM_SECONDS else "NOT met"
    print(
        f"{ENDPOINTS} endpoints, five connections to each broker: {fifteen.wall:.2f} s wall, {fifteen.cpu:.2f} s CPU."
    )
    print(f"Aim, below {MANY_AIM_SECONDS:.0f} s: {met}. The JVM holds {memory} MB.")
    assert found > 0.9 * queried, "jmxquery must have read what we read"


def _median_poll(jmx: JmxBrokers, gateway: JmxGateway) -> CpuCost:
    for _ in range(10):  # connections, and the JVM's compiler
        until_complete(jmx)
    costs = []
    for _ in range(POLLS):
        assert gateway.pid is not None
        start, jvm = CpuCost.so_far(), cpu_of([gateway.pid])
        until_complete(jmx)
        took = CpuCost.so_far() - start
        costs.append(CpuCost(took.wall, took.cpu + cpu_of([gateway.pid]) - jvm))
        time.sleep(0.1)
    # The kernel counts CPU of another process in hundredths of a second: the mean is finer than the median.
    return CpuCost(statistics.median(cost.wall for cost in costs), statistics.mean(cost.cpu for cost in costs))


def _jmxquery(kafka: KafkaCluster, jmx: JmxBrokers) -> tuple[CpuCost, int, int]:
    """What the same questions cost jmxquery, how many beans they are, and for how many it had an answer."""
    plans = {endpoint.port: state._safe_queries(state._connection) for endpoint, state in jmx._nodes.items()}  # type: ignore[arg-type]
    costs, found = [], 0
    for _ in range(QUERIES):
        start, children = CpuCost.so_far(), _of_children()
        found = 0
        for node in kafka.brokers:
            questions = [(question.bean, question.attributes) for question in plans[node.jmx_port]]
            values = read_with_jmxquery(node.jmx_port, questions)
            found += len({bean for bean, _ in values})
        took = CpuCost.so_far() - start
        costs.append(CpuCost(took.wall, took.cpu + _of_children() - children))
    median = CpuCost(statistics.median(c.wall for c in costs), statistics.median(c.cpu for c in costs))
    return median, sum(len(plan) for plan in plans.values()), found


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _many(kafka: KafkaCluster) -> ConfiguredEndpoints:
    ports = islice(cycle(node.jmx_port for node in kafka.brokers), ENDPOINTS)
    return ConfiguredEndpoints({number: ("127.0.0.1", port) for number, port in enumerate(ports, 1)}, {})


def _by(gateway: JmxGateway) -> Connect:
    return lambda host, port: gateway.connect(RmiAddress(host, port))


def _resident_mb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024
