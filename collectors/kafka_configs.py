"""Collects topic configurations: min.insync.replicas, retention, cleanup policy, timestamp type.

Needs DescribeConfigs on the topics. Without it only under_min_isr and the loss forecast are missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import request_any
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_decode.metadata import decode_metadata
from lagwatch.batch import make_batch
from lagwatch.catalogue import TOPIC
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import CONFIGS

_TOPICS_PER_REQUEST = 1000
_NUMBERS = {
    "min.insync.replicas": "min_isr",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
}
_TEXTS = {"cleanup.policy": "cleanup_policy", "message.timestamp.type": "timestamp_type"}


class KafkaConfigs:
    """Collects the configuration fields of `topic`, and provides min.insync.replicas to `KafkaPoll`."""

    source = CONFIGS

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
        """min.insync.replicas by topic, from the latest responses; before the first one, those of `resume`."""
        return self._min_isr

    def resume(self, min_isr: Mapping[str, int]) -> None:
        """Continue with the values from before a reload or a restart. Call it before the first run."""
        self._min_isr = min_isr

    def collect(self, now_ms: int) -> Collected:
        """Fetch the configurations of all topics once."""
        try:
            responses = self._connection.run(self._fetch, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(CONFIGS, "", str(error))], complete=False)
        configs, failures = _read(responses)
        min_isr = {topic: values["min_isr"] for topic, values in configs.items() if "min_isr" in values}
        # After a failure keep the values of topics that are not in the response.
        self._min_isr = {**self._min_isr, **min_isr} if failures else min_isr
        watched = [topic for topic in configs if self._watch_topic(topic)]
        columns: dict[str, Sequence[Any]] = {"topic": watched}
        for name in (*_NUMBERS.values(), *_TEXTS.values()):
            columns[name] = [configs[topic].get(name) for topic in watched]
        return Collected([make_batch(TOPIC, self._cluster, now_ms, columns)], failures)

    async def _fetch(self, deadline: Deadline) -> list[Any]:
        metadata = decode_metadata((await request_any(self._connection, requests.metadata_request(), deadline)).body)
        topics = [topic for topic in metadata.topics if topic not in metadata.topic_errors]
        chunks = [topics[first : first + _TOPICS_PER_REQUEST] for first in range(0, len(topics), _TOPICS_PER_REQUEST)]
        keys = [*_NUMBERS, *_TEXTS]
        responses = await self._connection.gather(
            [
                request_any(self._connection, requests.describe_topic_configs_request(chunk, keys), deadline)
                for chunk in chunks
            ]
        )
        if responses and all(isinstance(response, SourceError) for response in responses):
            raise SourceError(str(responses[0]))
        return responses


def _read(responses: Sequence[Any]) -> tuple[dict[str, dict[str, Any]], list[Failure]]:
    configs: dict[str, dict[str, Any]] = {}
    by_code: dict[int, list[str]] = defaultdict(list)
    failures = []
    for response in responses:
        if isinstance(response, SourceError):
            failures.append(Failure(CONFIGS, "topics", f"configs of up to {_TOPICS_PER_REQUEST} topics: {response}"))
            continue
        for result in response.results:
            if result.error_code:
                by_code[result.error_code].append(result.resource_name)
                continue
            values: dict[str, Any] = {}
            for config in result.configs:
                if config.name in _NUMBERS and config.value is not None:
                    values[_NUMBERS[config.name]] = int(config.value)
                elif config.name in _TEXTS:
                    values[_TEXTS[config.name]] = config.value
            configs[result.resource_name] = values
    failures += [
        Failure(
            CONFIGS,
            "topics",
            f"configs of {requests.list_names(topics, 'topic')}: {requests.describe_error_code(code)}",
        )
        for code, topics in by_code.items()
    ]
    return configs, failures
