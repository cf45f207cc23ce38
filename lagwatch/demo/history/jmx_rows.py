"""What JMX would tell of the brokers: shares, rates and times that follow the traffic of the hour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, BROKER_REQUEST, CLUSTER, TOPIC
from lagwatch.demo.history.layout import Layout
from lagwatch.demo.history.story import HOUR, StoryCluster
from lagwatch.demo.history.traffic import Traffic

_FULL_BYTES = 400_000.0  # a second: what a broker of the story can take
_HEAP = 4 * 2**30
_REQUESTS = {  # name: requests a second at full load, then mean ms waiting, local, remote, throttled, answer, sending
    "Produce": (900.0, 0.3, 1.2, 4.0, 0.0, 0.2, 0.3),
    "FetchConsumer": (1200.0, 0.2, 0.6, 180.0, 0.0, 0.2, 0.6),
    "FetchFollower": (600.0, 0.2, 0.5, 220.0, 0.0, 0.1, 0.4),
    "Metadata": (20.0, 0.1, 0.4, 0.0, 0.0, 0.1, 0.1),
    "OffsetCommit": (40.0, 0.2, 0.8, 2.0, 0.0, 0.1, 0.1),
}
_PARTS = ("queue", "local", "remote", "throttle", "response_queue", "response_send")


@dataclass(frozen=True, slots=True)
class Weather:
    """The moment: wall seconds, hours before the end, and bytes a second written to the cluster."""

    at: float
    hours: float
    bytes_in: float

    def flicker(self, seed: int) -> float:
        """A number around 1 that changes from poll to poll, the same at each telling."""
        return 1 + 0.15 * math.sin(self.at / 97 + seed * 1.7) + 0.08 * math.sin(self.at / 31 + seed * 4.1)


def jmx_batches(
    cluster: StoryCluster, at_ms: int, layout: Layout, weather: Weather, traffic: Mapping[str, Traffic]
) -> list[Batch]:
    """Rows of brokers, requests, the cluster and topics."""
    return [
        _brokers(cluster, at_ms, layout, weather),
        _requests(cluster, at_ms, layout, weather),
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
                "bytes_in_rate": [weather.bytes_in],
                "bytes_out_rate": [weather.bytes_in * 2.4],
            },
        ),
        _topics(cluster, at_ms, weather, traffic),
    ]


def _load(cluster: StoryCluster, layout: Layout, weather: Weather, broker: int) -> float:
    """How busy a broker is, 0 to 1: its share of the leaders, of what is written."""
    share = layout.leaders(broker) / max(1, len(layout.partitions))
    return min(0.97, weather.bytes_in * share * len(cluster.brokers) / _FULL_BYTES * weather.flicker(broker))


def _brokers(cluster: StoryCluster, at_ms: int, layout: Layout, weather: Weather) -> Batch:
    alive = layout.alive
    load = [_load(cluster, layout, weather, broker) for broker in alive]
    mean_leaders = len(layout.partitions) / len(alive)
    leaders = [layout.leaders(broker) / mean_leaders for broker in alive]
    total = sum(leaders)
    moved = bool(layout.away)  # replicas fall out of sync and come back while a broker is away
    saw = (weather.at / 600) % 1
    return make_batch(
        BROKER,
        cluster.name,
        at_ms,
        {
            "broker": list(alive),
            "roles": ["broker,controller"] * len(alive),
            "leaders_ratio": leaders,
            "partitions_ratio": [1.0] * len(alive),
            "bytes_in_ratio": [one * weather.flicker(broker) for one, broker in zip(leaders, alive, strict=True)],
            "request_handler_idle": [1 - one for one in load],
            "network_processor_idle": [1 - 0.6 * one for one in load],
            "bytes_in_rate": [weather.bytes_in * one / total for one in leaders],
            "bytes_out_rate": [weather.bytes_in * 2.4 * one / total for one in leaders],
            "isr_shrink_rate": [0.02 * weather.flicker(b) if moved else 0.0 for b in alive],
            "isr_expand_rate": [0.015 * weather.flicker(b + 5) if moved else 0.0 for b in alive],
            "heap_used_bytes": [round(_HEAP * (0.3 + 0.4 * ((saw + b / 3) % 1))) for b in alive],
            "heap_max_bytes": [_HEAP] * len(alive),
            "gc_share": [0.004 + 0.02 * one for one in load],
            "cpu_cores": [0.2 + 2.5 * one for one in load],
            "open_file_descriptors": [600 + round(200 * one) for one in load],
            "uptime_seconds": [weather.at % (9 * 24 * HOUR) + b for b in alive],
            "raft_commit_latency_ms": [3.0 * weather.flicker(b) if b == alive[0] else None for b in alive],
            "metadata_lag_ms": [round(20 * weather.flicker(b)) for b in alive],
        },
    )


def _requests(cluster: StoryCluster, at_ms: int, layout: Layout, weather: Weather) -> Batch:
    rows = [(broker, name) for broker in layout.alive for name in _REQUESTS]
    busy = {broker: _load(cluster, layout, weather, broker) for broker in layout.alive}
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


def _topics(cluster: StoryCluster, at_ms: int, weather: Weather, traffic: Mapping[str, Traffic]) -> Batch:
    written = [traffic[topic.name].per_second(weather.at) for topic in cluster.topics]
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
