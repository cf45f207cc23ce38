"""Sizes on disk: replicas, topics, brokers and their volumes. Needs Describe on the cluster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import refresh_from_any
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.offsets import LogDirs, decode_log_dirs
from lagwatch.batch import Batch, Column, Texts, make_batch
from lagwatch.catalogue import BROKER, CLUSTER, TOPIC, TOPIC_PARTITION
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.verdict.suspect_broker import oversized_partitions

SOURCE = "kafka_logdirs"


class KafkaLogDirs:
    """Collects the sizes in `topic_partition`, `topic` and `broker`."""

    source = SOURCE

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
        """Ask every broker once, side by side."""
        try:
            answers = self._connection.run(self._ask, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(SOURCE, "", str(error))], complete=False)
        failures = []
        heard: dict[int, LogDirs] = {}
        for broker, answer in answers.items():
            if isinstance(answer, SourceError):
                failures.append(Failure(SOURCE, f"broker {broker}", str(answer)))
                continue
            dirs = decode_log_dirs(answer.body, answer.version)
            if dirs.error:
                failures.append(Failure(SOURCE, f"broker {broker}", wire.error_words(dirs.error)))
                continue
            failures += [
                Failure(SOURCE, f"broker {broker}", f"log dir {folder}: {wire.error_words(code)}")
                for folder, code in dirs.dir_errors.items()
            ]
            heard[broker] = dirs
        if not heard:
            return Collected([], failures, complete=False)
        reached = [f"broker {broker}" for broker in heard]
        return Collected(self._batches(now_ms, heard), failures, reached, complete=len(heard) == len(answers))

    async def _ask(self, deadline: Deadline) -> dict[int, wire.RawAnswer | SourceError]:
        await refresh_from_any(
            self._connection, deadline.sooner(deadline.left() / 2)
        )  # brokers come and go between polls
        nodes = self._connection.nodes()
        answers = await self._connection.gather(
            [self._connection.ask(node, wire.describe_log_dirs_request(), deadline) for node in nodes]
        )
        return dict(zip(nodes, answers, strict=True))

    def _batches(self, now_ms: int, heard: dict[int, LogDirs]) -> list[Batch]:
        return [*self._topic_batches(now_ms, heard), _broker_batch(self._cluster, now_ms, heard)]

    def _topic_batches(self, now_ms: int, heard: dict[int, LogDirs]) -> list[Batch]:
        numbers: dict[str, int] = {}
        topic = np.concatenate([_numbered(dirs, numbers) for dirs in heard.values()])
        partition = np.concatenate([dirs.partition for dirs in heard.values()])
        size = np.concatenate([dirs.size for dirs in heard.values()])
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


def _numbered(dirs: LogDirs, numbers: dict[str, int]) -> npt.NDArray[np.int64]:
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in dirs.topics], dtype=np.int64)
    return codes[dirs.topic_code] if len(codes) else np.zeros(0, np.int64)


def _broker_batch(cluster: str, now_ms: int, heard: dict[int, LogDirs]) -> Batch:
    brokers = sorted(heard)
    columns: dict[str, Column] = {
        "broker": brokers,
        "size_bytes": [int(heard[broker].size.sum()) for broker in brokers],
        "disk_total_bytes": [heard[broker].total_bytes for broker in brokers],
        "disk_free_bytes": [heard[broker].free_bytes for broker in brokers],
    }
    return make_batch(BROKER, cluster, now_ms, columns)
