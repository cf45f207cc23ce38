"""Generates the JMX rows of brokers: ratios, rates and times that follow the traffic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, BROKER_REQUEST, CLUSTER, TOPIC
from lagwatch.demo.history.layout import Layout
from lagwatch.demo.history.story import HOUR, StoryCluster
from lagwatch.demo.history.traffic import Traffic

_FULL_BYTES = 400_000.0  # per second: the capacity of a broker of the story
_HEAP = 4 * 2**30
_REQUESTS = {  # name: requests per second at full load, then mean ms of each of _PARTS
    "Produce": (900.0, 0.3, 1.2, 4.0, 0.0, 0.2, 0.3),
    "FetchConsumer": (1200.0, 0.2, 0.6, 180.0, 0.0, 0.2, 0.6),
    "FetchFollower": (600.0, 0.2, 0.5, 220.0, 0.0, 0.1, 0.4),
    "Metadata": (20.0, 0.1, 0.4, 0.0, 0.0, 0.1, 0.1),
    "OffsetCommit": (40.0, 0.2, 0.8, 2.0, 0.0, 0.1, 0.1),
}
_PARTS = ("queue", "local", "remote", "throttle", "response_queue", "response_send")


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The load at one time: wall seconds, hours before the end, and bytes per second written to the cluster."""

    at: float
    hours: float
    bytes_in: float

    def jitter(self, seed: int) -> float:
        """A factor around 1 that varies between polls, but is deterministic."""
        return 1 + 0.15 * math.sin(self.at / 97 + seed * 1.7) + 0.08 * math.sin(self.at / 31 + seed * 4.1)


def jmx_batches(
    cluster: StoryCluster, at_ms: int, layout: Layout, load: ClusterLoad, traffic: Mapping[str, Traffic]
) -> list[Batch]:
    """Rows of brokers, requests, the cluster and topics."""
    return [
        _brokers(cluster, at_ms, layout, load),
        _requests(cluster, at_ms, layout, load),
        make_batch(
            CLUSTER,
            cluster.name,
            at_ms,
            {
                "at_min_isr_partitions": [len(layout.partitions) if layout.away else 0],
                "fenced_brokers": [len(layout.away)],
                "active_brokers": [len(layout.alive)],
                "disagreements": [0],
                "unclean_election_rate": [0.0],
                "bytes_in_rate": [load.bytes_in],
                "bytes_out_rate": [load.bytes_in * 2.4],
            },
        ),
        _topics(cluster, at_ms, load, traffic),
    ]


def _utilisation(cluster: StoryCluster, layout: Layout, load: ClusterLoad, broker: int) -> float:
    """The utilisation of a broker from 0 to 1, by its share of leaders."""
    share = layout.leaders(broker) / max(1, len(layout.partitions))
    return min(0.97, load.bytes_in * share * len(cluster.brokers) / _FULL_BYTES * load.jitter(broker))


def _brokers(cluster: StoryCluster, at_ms: int, layout: Layout, load: ClusterLoad) -> Batch:
    alive = layout.alive
    busy = [_utilisation(cluster, layout, load, broker) for broker in alive]
    mean_leaders = len(layout.partitions) / len(alive)
    leaders = [layout.leaders(broker) / mean_leaders for broker in alive]
    total = sum(leaders)
    moved = bool(layout.away)  # replicas leave and rejoin the ISR while a broker is down
    saw = (load.at / 600) % 1
    return make_batch(
        BROKER,
        cluster.name,
        at_ms,
        {
            "broker": list(alive),
            "roles": ["broker,controller"] * len(alive),
            "leaders_ratio": leaders,
            "partitions_ratio": [1.0] * len(alive),
            "bytes_in_ratio": [one * load.jitter(broker) for one, broker in zip(leaders, alive, strict=True)],
            "request_handler_idle": [1 - one for one in busy],
            "network_processor_idle": [1 - 0.6 * one for one in busy],
            "bytes_in_rate": [load.bytes_in * one / total for one in leaders],
            "bytes_out_rate": [load.bytes_in * 2.4 * one / total for one in leaders],
            "isr_shrink_rate": [0.02 * load.jitter(b) if moved else 0.0 for b in alive],
            "isr_expand_rate": [0.015 * load.jitter(b + 5) if moved else 0.0 for b in alive],
            "heap_used_bytes": [round(_HEAP * (0.3 + 0.4 * ((saw + b / 3) % 1))) for b in alive],
            "heap_max_bytes": [_HEAP] * len(alive),
            "gc_share": [0.004 + 0.02 * one for one in busy],
            "cpu_cores": [0.2 + 2.5 * one for one in busy],
            "open_file_descriptors": [600 + round(200 * one) for one in busy],
            "uptime_seconds": [load.at % (9 * 24 * HOUR) + b for b in alive],
            "raft_commit_latency_ms": [3.0 * load.jitter(b) if b == alive[0] else None for b in alive],
            "metadata_lag_ms": [round(20 * load.jitter(b)) for b in alive],
        },
    )


def _requests(cluster: StoryCluster, at_ms: int, layout: Layout, load: ClusterLoad) -> Batch:
    rows = [(broker, name) for broker in layout.alive for name in _REQUESTS]
    busy = {broker: _utilisation(cluster, layout, load, broker) for broker in layout.alive}
    slower = [1 + 3 * busy[broker] ** 2 for broker, _ in rows]
    columns: dict[str, list[object]] = {
        "broker": [broker for broker, _ in rows],
        "request": [name for _, name in rows],
        "rate": [_REQUESTS[name][0] * busy[broker] for broker, name in rows],
    }
    totals = [0.0] * len(rows)
    for position, part in enumerate(_PARTS, 1):
        means = [_REQUESTS[name][position] * slow for (_, name), slow in zip(rows, slower, strict=True)]
        columns[f"{part}_mean_ms"] = [*means]
        columns[f"{part}_p99_ms"] = [6 * mean for mean in means]
        totals = [total + mean for total, mean in zip(totals, means, strict=True)]
    columns["total_mean_ms"] = [*totals]
    columns["total_p99_ms"] = [4 * total for total in totals]
    return make_batch(BROKER_REQUEST, cluster.name, at_ms, columns)


def _topics(cluster: StoryCluster, at_ms: int, load: ClusterLoad, traffic: Mapping[str, Traffic]) -> Batch:
    written = [traffic[topic.name].per_second(load.at) for topic in cluster.topics]
    return make_batch(
        TOPIC,
        cluster.name,
        at_ms,
        {
            "topic": [topic.name for topic in cluster.topics],
            "messages_in_rate": written,
            "bytes_in_rate": [one * topic.message_bytes for one, topic in zip(written, cluster.topics, strict=True)],
            "bytes_out_rate": [
                one * topic.message_bytes * 2.4 for one, topic in zip(written, cluster.topics, strict=True)
            ],
        },
    )
