"""Collects sizes on disk of replicas, topics, brokers and volumes. Needs Describe on the cluster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import refresh_brokers
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_decode.offsets import LogDirs, decode_log_dirs
from lagwatch.batch import Batch, Column, Texts, make_batch
from lagwatch.catalogue import BROKER, CLUSTER, TOPIC, TOPIC_PARTITION
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import LOGDIRS
from lagwatch.verdict.sizing_limits import oversized_partitions


class KafkaLogDirs:
    """Collects the sizes in `topic_partition`, `topic` and `broker`."""

    source = LOGDIRS

    def __init__(
        self,
        cluster: str,
        connection: Connection,
        *,
        topics: Callable[[str], bool] = lambda _: True,
        deadline_seconds: float = 30.0,
    ) -> None:
        self._cluster = cluster
        self._connection = connection
        self._watch_topic = topics
        self._deadline_seconds = deadline_seconds

    def collect(self, now_ms: int) -> Collected:
        """Query every broker once, in parallel."""
        try:
            responses = self._connection.run(self._fetch, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(LOGDIRS, "", str(error))], complete=False)
        failures = []
        by_broker: dict[int, LogDirs] = {}
        for broker, response in responses.items():
            if isinstance(response, SourceError):
                failures.append(Failure(LOGDIRS, f"broker {broker}", str(response)))
                continue
            dirs = decode_log_dirs(response.body, response.version)
            if dirs.error:
                failures.append(Failure(LOGDIRS, f"broker {broker}", requests.describe_error_code(dirs.error)))
                continue
            failures += [
                Failure(LOGDIRS, f"broker {broker}", f"log dir {folder}: {requests.describe_error_code(code)}")
                for folder, code in dirs.dir_errors.items()
            ]
            by_broker[broker] = dirs
        if not by_broker:
            return Collected([], failures, complete=False)
        reached = [f"broker {broker}" for broker in by_broker]
        return Collected(self._batches(now_ms, by_broker), failures, reached, complete=len(by_broker) == len(responses))

    async def _fetch(self, deadline: Deadline) -> dict[int, requests.RawResponse | SourceError]:
        # Brokers may join or leave between polls.
        await refresh_brokers(self._connection, deadline.at_most(deadline.remaining() / 2))
        nodes = self._connection.nodes()
        responses = await self._connection.gather(
            [self._connection.request(node, requests.describe_log_dirs_request(), deadline) for node in nodes]
        )
        return dict(zip(nodes, responses, strict=True))

    def _batches(self, now_ms: int, by_broker: dict[int, LogDirs]) -> list[Batch]:
        return [*self._topic_batches(now_ms, by_broker), _broker_batch(self._cluster, now_ms, by_broker)]

    def _topic_batches(self, now_ms: int, by_broker: dict[int, LogDirs]) -> list[Batch]:
        numbers: dict[str, int] = {}
        topic = np.concatenate([_topic_numbers(dirs, numbers) for dirs in by_broker.values()])
        partition = np.concatenate([dirs.partition for dirs in by_broker.values()])
        size = np.concatenate([dirs.size for dirs in by_broker.values()])
        names = list(numbers)
        watched = np.array([self._watch_topic(name) for name in names], dtype=bool)
        keep = watched[topic] if names else np.zeros(0, dtype=bool)
        topic, partition, size = topic[keep], partition[keep], size[keep]
        if not len(topic):
            return []
        order = np.lexsort((partition, topic))
        topic, partition, size = topic[order], partition[order], size[order]
        first = np.flatnonzero(np.r_[True, (np.diff(topic) != 0) | (np.diff(partition) != 0)])
        topic_first = np.flatnonzero(np.r_[True, np.diff(topic) != 0])
        largest = np.maximum.reduceat(size, first)
        partitions: dict[str, Column] = {
            "topic": Texts(topic[first].astype(np.int32), names),
            "partition": partition[first],
            "size_bytes": largest,
        }
        topics: dict[str, Column] = {
            "topic": [names[number] for number in topic[topic_first].tolist()],
            "size_bytes": np.add.reduceat(size, topic_first),
        }
        return [
            make_batch(TOPIC_PARTITION, self._cluster, now_ms, partitions),
            make_batch(TOPIC, self._cluster, now_ms, topics),
            make_batch(CLUSTER, self._cluster, now_ms, {"oversized_partitions": [oversized_partitions(largest)]}),
        ]


def _topic_numbers(dirs: LogDirs, numbers: dict[str, int]) -> npt.NDArray[np.int64]:
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in dirs.topics], dtype=np.int64)
    return codes[dirs.topic_code] if len(codes) else np.zeros(0, np.int64)


def _broker_batch(cluster: str, now_ms: int, by_broker: dict[int, LogDirs]) -> Batch:
    brokers = sorted(by_broker)
    columns: dict[str, Column] = {
        "broker": brokers,
        "size_bytes": [int(by_broker[broker].size.sum()) for broker in brokers],
        "disk_total_bytes": [by_broker[broker].total_bytes for broker in brokers],
        "disk_free_bytes": [by_broker[broker].free_bytes for broker in brokers],
    }
    return make_batch(BROKER, cluster, now_ms, columns)
