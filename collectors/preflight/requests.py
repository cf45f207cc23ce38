"""Sends every request the agent sends, once, and records successes and errors by API."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import request_any
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.connection_interface import Deadline
from collectors.kafka_client.error_codes import TOPIC_AUTHORIZATION_FAILED
from collectors.kafka_decode.offsets import decode_list_offsets, decode_log_dirs, decode_offset_fetch
from collectors.preflight.access import AccessResults
from collectors.preflight.commits import probe_offsets_topic
from collectors.preflight.steps import run_in_parallel
from lagwatch.errors import SourceError
from lagwatch.kafka_names import CLASSIC_TYPES, CONSUMER_TYPE, SHARE_TYPE

_NAMES_PER_REQUEST = 500
_ROUND_TRIPS = 3  # metadata and groups, then their details; and one spare


class AccessRequests:
    """One round of requests to the reachable brokers."""

    def __init__(
        self,
        options: ConnectionOptions,
        connection: KafkaConnection,
        brokers: Sequence[int],
        *,
        watch_topic: Callable[[str], bool],
        watch_group: Callable[[str], bool],
        reads_commits: bool,
        seconds: float,
    ) -> None:
        self._options = options
        self._connection = connection
        self._brokers = brokers
        self._watch_topic = watch_topic
        self._watch_group = watch_group
        self._reads_commits = reads_commits
        self._seconds = seconds
        self._results = AccessResults()
        self._led: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._coordinated: dict[int, dict[str, str]] = {}

    def run(self) -> AccessResults:
        """Send all requests. Does not raise for requests that fail; blocks at most a few times `seconds`.

        DescribeLogDirs and DescribeQuorum use their own connections, as in the agent: a broker answers one connection's
        requests in order, and a slow response must not delay the others.
        """
        tasks = [self._request_lists_then_details, self._request_log_dirs, self._request_quorum]
        for outcome in run_in_parallel(tasks, _ROUND_TRIPS * (self._seconds + 1)):
            if outcome.error and not isinstance(outcome.error, SourceError | TimeoutError):
                raise outcome.error
        if self._results.hidden_topics():
            with self._recording("Metadata"):
                self._connection.run(self._check_hidden_topics, self._seconds)
        return self._results

    def _request_lists_then_details(self) -> None:
        self._connection.run(self._request_lists, self._seconds)
        self._connection.run(self._request_details, self._seconds)

    async def _request_lists(self, deadline: Deadline) -> None:
        await self._connection.gather(
            [self._cluster(deadline), self._metadata(deadline), *(self._groups(b, deadline) for b in self._brokers)]
        )

    async def _request_details(self, deadline: Deadline) -> None:
        topics = sorted(self._results.topics)
        self._skip_unneeded()
        await self._connection.gather(
            [
                *(
                    work(broker, part, deadline)
                    for broker, groups in self._coordinated.items()
                    for work, wanted in (
                        (self._commits, [g for g in groups if groups[g] != SHARE_TYPE]),
                        (self._members, [g for g in groups if groups[g] in CLASSIC_TYPES]),
                        (self._consumer_members, [g for g in groups if groups[g] == CONSUMER_TYPE]),
                    )
                    for part in _chunks(wanted)
                ),
                *(self._offsets(broker, deadline) for broker in self._led if broker in self._brokers),
                *(self._configs(part, deadline) for part in _chunks(topics)),
                *([self._commit_log(deadline)] if self._reads_commits else []),
            ]
        )

    def _skip_unneeded(self) -> None:
        kinds = {kind for groups in self._coordinated.values() for kind in groups.values()}
        if not kinds - {SHARE_TYPE}:
            self._results.not_needed["OffsetFetch"] = "there are no groups"
        if not kinds.intersection(CLASSIC_TYPES):
            self._results.not_needed["DescribeGroups"] = "there are no classic groups"
        if CONSUMER_TYPE not in kinds:
            self._results.not_needed["ConsumerGroupDescribe"] = "there are no groups of the new protocol (KIP-848)"
        elif not self._connection.supports(requests.consumer_group_describe_request([])):
            self._results.not_needed["ConsumerGroupDescribe"] = "the brokers do not support it; members are unknown"
        if not self._led:
            self._results.not_needed["ListOffsets"] = "there are no partitions"
        if not self._results.topics:
            self._results.not_needed["DescribeConfigs"] = "there are no topics"

    async def _cluster(self, deadline: Deadline) -> None:
        with self._recording("DescribeCluster"):
            response = await request_any(self._connection, requests.describe_cluster_request(), deadline)
            self._record("DescribeCluster", {response.error_code: ["cluster"]})
            self._results.operations = frozenset(int(operation) for operation in response.authorized_operations or ())

    async def _metadata(self, deadline: Deadline) -> None:
        with self._recording("Metadata"):
            response = await request_any(
                self._connection, requests.metadata_request(authorized_operations=True), deadline
            )
            watched = [topic for topic in response.topics if self._watch_topic(topic.name)]
            self._record("Metadata", _by_code((topic.error_code, topic.name) for topic in watched))
            self._results.topics = frozenset(topic.name for topic in watched)
            for topic in watched:
                for partition in topic.partitions:
                    if partition.leader_id >= 0:
                        self._led[partition.leader_id][topic.name].append(partition.partition_index)

    async def _check_hidden_topics(self, deadline: Deadline) -> None:
        """Remove topics that are not hidden but new or just deleted: requested by name, hidden topics have an error."""
        for names in _chunks(self._results.hidden_topics()):
            response = await request_any(self._connection, requests.named_topics_request(names), deadline)
            new = {topic.name for topic in response.topics if topic.error_code != TOPIC_AUTHORIZATION_FAILED}
            self._results.disk_topics = (self._results.disk_topics or frozenset()) - new

    async def _groups(self, broker: int, deadline: Deadline) -> None:
        with self._recording("ListGroups", f"broker {broker}: "):
            response = await self._connection.request(broker, requests.list_groups_request(), deadline)
            self._record("ListGroups", {response.error_code: [str(broker)]}, found=len(response.groups))
            groups = {
                g.group_id: (g.group_type or "").lower() for g in response.groups if self._watch_group(g.group_id)
            }
            self._coordinated[broker] = groups
            self._results.groups |= groups.keys()

    async def _commits(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        with self._recording("OffsetFetch", f"broker {broker}: "):
            request = requests.offset_fetch_request(groups)
            if self._connection.supports(request):
                commits = decode_offset_fetch((await self._connection.request(broker, request, deadline)).body)
                codes = [(commits.group_errors.get(group, 0), group) for group in commits.groups]
            else:
                responses = [
                    await self._connection.request(broker, requests.offset_fetch_one_request(group), deadline)
                    for group in groups
                ]
                codes = [(response.error_code, group) for group, response in zip(groups, responses, strict=True)]
            self._record("OffsetFetch", _by_code(codes))

    async def _members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        with self._recording("DescribeGroups", f"broker {broker}: "):
            response = await self._connection.request(broker, requests.describe_groups_request(groups), deadline)
            self._record("DescribeGroups", _by_code((group.error_code, group.group_id) for group in response.groups))

    async def _consumer_members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        if "ConsumerGroupDescribe" in self._results.not_needed:
            return
        with self._recording("ConsumerGroupDescribe", f"broker {broker}: "):
            response = await self._connection.request(
                broker, requests.consumer_group_describe_request(groups), deadline
            )
            codes = _by_code((group.error_code, group.group_id) for group in response.groups)
            self._record("ConsumerGroupDescribe", codes)

    async def _offsets(self, broker: int, deadline: Deadline) -> None:
        with self._recording("ListOffsets", f"broker {broker}: "):
            timeout_ms = int(deadline.remaining() * 1000)
            request = requests.list_offsets_request(self._led[broker], requests.LATEST, timeout_ms=timeout_ms)
            offsets = decode_list_offsets((await self._connection.request(broker, request, deadline)).body)
            names = [
                f"{offsets.topics[code]}/{partition}"
                for code, partition in zip(offsets.topic_code, offsets.partition, strict=True)
            ]
            self._record("ListOffsets", _by_code(zip(np.asarray(offsets.error).tolist(), names, strict=True)))

    async def _configs(self, topics: Sequence[str], deadline: Deadline) -> None:
        with self._recording("DescribeConfigs"):
            request = requests.describe_topic_configs_request(topics, ["min.insync.replicas"])
            response = await request_any(self._connection, request, deadline)
            codes = _by_code((result.error_code, result.resource_name) for result in response.results)
            self._record("DescribeConfigs", codes)

    async def _commit_log(self, deadline: Deadline) -> None:
        with self._recording("Fetch"):
            codes = await probe_offsets_topic(self._connection, self._brokers, deadline)
            if codes is None:
                self._results.not_needed["Fetch"] = (
                    "there is no offsets topic, or the cluster hides it: commits come from polls"
                )
            else:
                self._record("Fetch", _by_code(codes))

    def _request_log_dirs(self) -> None:
        async def send(deadline: Deadline) -> None:
            await connection.gather([self._disk(connection, broker, deadline) for broker in self._brokers])

        with self._recording("DescribeLogDirs"), _opened(self._options) as connection:
            connection.run(send, self._seconds)

    async def _disk(self, connection: KafkaConnection, broker: int, deadline: Deadline) -> None:
        with self._recording("DescribeLogDirs", f"broker {broker}: "):
            response = await connection.request(broker, requests.describe_log_dirs_request(), deadline)
            dirs = decode_log_dirs(response.body, response.version)
            self._record("DescribeLogDirs", {dirs.error: [str(broker)]})
            if not dirs.error:
                topics = self._results.disk_topics or frozenset()
                self._results.disk_topics = topics | {topic for topic in dirs.topics if self._watch_topic(topic)}

    def _request_quorum(self) -> None:
        async def send(deadline: Deadline) -> None:
            request = requests.describe_quorum_request()
            if not connection.supports(request):
                self._results.not_needed["DescribeQuorum"] = "the cluster has no quorum: it runs on ZooKeeper"
                return
            response = await request_any(connection, request, deadline)
            codes = [response.error_code, *(part.error_code for topic in response.topics for part in topic.partitions)]
            self._record("DescribeQuorum", {max(codes): ["quorum"]})

        with self._recording("DescribeQuorum"), _opened(self._options) as connection:
            connection.run(send, self._seconds)

    @contextmanager
    def _recording(self, api: str, who: str = "") -> Iterator[None]:
        """Record the duration of a request, and the reason if it fails."""
        start = time.monotonic()
        try:
            yield
        except SourceError as error:
            self._results.request_errors.setdefault(api, []).append(f"{who}{error}")
        finally:
            took = time.monotonic() - start
            self._results.seconds[api] = max(self._results.seconds.get(api, 0.0), took)

    def _record(self, api: str, by_code: dict[int, list[str]], found: int | None = None) -> None:
        """Count successes, and keep the names by error code."""
        good = by_code.get(0, [])
        answered = len(good) if found is None else found
        self._results.answered[api] = self._results.answered.get(api, 0) + answered
        for code, names in by_code.items():
            if code:
                self._results.errors.setdefault(api, {}).setdefault(code, []).extend(names)


@contextmanager
def _opened(options: ConnectionOptions) -> Iterator[KafkaConnection]:
    connection = KafkaConnection(options)
    try:
        yield connection
    finally:
        connection.close()


def _by_code(pairs: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    codes: dict[int, list[str]] = {}
    for code, name in pairs:
        codes.setdefault(int(code), []).append(name)
    return codes


def _chunks(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[first : first + _NAMES_PER_REQUEST] for first in range(0, len(names), _NAMES_PER_REQUEST)]
