"""Topic configurations: min.insync.replicas, retention, cleanup policy, timestamp type.

Needs DescribeConfigs on the topics. Without it only what depends on these values is missing: under_min_isr now,
loss forecasts later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import ask_any
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.metadata import decode_metadata
from lagwatch.batch import make_batch
from lagwatch.catalogue import TOPIC
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure

SOURCE = "kafka_configs"
_TOPICS_A_REQUEST = 1000
_NUMBERS = {
    "min.insync.replicas": "min_isr",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
}
_TEXTS = {"cleanup.policy": "cleanup_policy", "message.timestamp.type": "timestamp_type"}


class KafkaConfigs:
    """Collects the configured part of `topic`, and lends min.insync.replicas to the Kafka job."""

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
        self._min_isr: Mapping[str, int] = {}

    def min_isr(self) -> Mapping[str, int]:
        """min.insync.replicas of every topic, as last heard; empty before the first answer."""
        return self._min_isr

    def collect(self, now_ms: int) -> Collected:
        """Ask once for all topics."""
        try:
            answers = self._connection.run(self._ask, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(SOURCE, "", str(error))], complete=False)
        configs, failures = _read(answers)
        heard = {topic: values["min_isr"] for topic, values in configs.items() if "min_isr" in values}
        self._min_isr = {**self._min_isr, **heard} if failures else heard  # what could not be asked is not forgotten
        watched = [topic for topic in configs if self._watch_topic(topic)]
        columns: dict[str, Sequence[Any]] = {"topic": watched}
        for name in (*_NUMBERS.values(), *_TEXTS.values()):
            columns[name] = [configs[topic].get(name) for topic in watched]
        return Collected([make_batch(TOPIC, self._cluster, now_ms, columns)], failures)

    async def _ask(self, deadline: Deadline) -> list[Any]:
        metadata = decode_metadata((await ask_any(self._connection, wire.metadata_request(), deadline)).body)
        topics = [topic for topic in metadata.topics if topic not in metadata.topic_errors]
        parts = [topics[first : first + _TOPICS_A_REQUEST] for first in range(0, len(topics), _TOPICS_A_REQUEST)]
        keys = [*_NUMBERS, *_TEXTS]
        answers = await self._connection.gather(
            [ask_any(self._connection, wire.describe_topic_configs_request(part, keys), deadline) for part in parts]
        )
        if answers and all(isinstance(answer, SourceError) for answer in answers):
            raise SourceError(str(answers[0]))
        return answers


def _read(answers: Sequence[Any]) -> tuple[dict[str, dict[str, Any]], list[Failure]]:
    configs: dict[str, dict[str, Any]] = {}
    refused: dict[int, list[str]] = defaultdict(list)
    failures = []
    for answer in answers:
        if isinstance(answer, SourceError):
            failures.append(Failure(SOURCE, "topics", f"configs of up to {_TOPICS_A_REQUEST} topics: {answer}"))
            continue
        for result in answer.results:
            if result.error_code:
                refused[result.error_code].append(result.resource_name)
                continue
            values: dict[str, Any] = {}
            for config in result.configs:
                if config.name in _NUMBERS and config.value is not None:
                    values[_NUMBERS[config.name]] = int(config.value)
                elif config.name in _TEXTS:
                    values[_TEXTS[config.name]] = config.value
            configs[result.resource_name] = values
    failures += [
        Failure(SOURCE, "topics", f"configs of {wire.some(topics, 'topic')}: {wire.error_words(code)}")
        for code, topics in refused.items()
    ]
    return configs, failures
