"""Asks every question the agent asks, once, and keeps the answers apart from the errors."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import ask_any
from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.protocol import Deadline
from collectors.kafka_decode.offsets import decode_commits, decode_log_dirs, decode_offsets
from collectors.preflight.access import TOPIC_REFUSED, Heard
from collectors.preflight.commits import try_offsets_topic
from collectors.preflight.steps import side_by_side
from lagwatch.errors import SourceError

_A_REQUEST = 500
_CLASSIC = ("", "classic")
_CONSUMER = "consumer"
_SHARE = "share"
_QUESTIONS_IN_A_ROW = 3  # metadata and groups, then what they name; and one to spare


class Questions:
    """One round of questions to the brokers that can be reached."""

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
        self._heard = Heard()
        self._led: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._coordinated: dict[int, dict[str, str]] = {}

    def ask(self) -> Heard:
        """All questions. Never raises for what cannot be asked; blocks a few times `seconds` at most.

        Sizes and the quorum go over connections of their own, as in the agent: a broker answers one connection's
        requests in order, and one slow answer must not make the others look late.
        """
        works = [self._ask_lists_then_parts, self._ask_disks, self._ask_quorum]
        for outcome in side_by_side(works, _QUESTIONS_IN_A_ROW * (self._seconds + 1)):
            if outcome.error and not isinstance(outcome.error, SourceError | TimeoutError):
                raise outcome.error
        if self._heard.hidden_topics():
            with self._asking("Metadata"):
                self._connection.run(self._hidden, self._seconds)
        return self._heard

    def _ask_lists_then_parts(self) -> None:
        self._connection.run(self._lists, self._seconds)
        self._connection.run(self._parts, self._seconds)

    async def _lists(self, deadline: Deadline) -> None:
        await self._connection.gather(
            [self._cluster(deadline), self._metadata(deadline), *(self._groups(b, deadline) for b in self._brokers)]
        )

    async def _parts(self, deadline: Deadline) -> None:
        topics = sorted(self._heard.topics)
        self._explain_what_needs_no_asking()
        await self._connection.gather(
            [
                *(
                    work(broker, part, deadline)
                    for broker, groups in self._coordinated.items()
                    for work, wanted in (
                        (self._commits, [g for g in groups if groups[g] != _SHARE]),
                        (self._members, [g for g in groups if groups[g] in _CLASSIC]),
                        (self._consumer_members, [g for g in groups if groups[g] == _CONSUMER]),
                    )
                    for part in _parts_of(wanted)
                ),
                *(self._offsets(broker, deadline) for broker in self._led if broker in self._brokers),
                *(self._configs(part, deadline) for part in _parts_of(topics)),
                *([self._commit_log(deadline)] if self._reads_commits else []),
            ]
        )

    def _explain_what_needs_no_asking(self) -> None:
        kinds = {kind for groups in self._coordinated.values() for kind in groups.values()}
        if not kinds - {_SHARE}:
            self._heard.needless["OffsetFetch"] = "no group is seen"
        if not kinds.intersection(_CLASSIC):
            self._heard.needless["DescribeGroups"] = "no classic group is seen"
        if _CONSUMER not in kinds:
            self._heard.needless["ConsumerGroupDescribe"] = "no group of the new protocol (KIP-848) is seen"
        elif not self._connection.supports(wire.consumer_group_describe_request([])):
            self._heard.needless["ConsumerGroupDescribe"] = "the brokers do not know it; members stay unknown"
        if not self._led:
            self._heard.needless["ListOffsets"] = "no partition is seen"
        if not self._heard.topics:
            self._heard.needless["DescribeConfigs"] = "no topic is seen"

    async def _cluster(self, deadline: Deadline) -> None:
        with self._asking("DescribeCluster"):
            answer = await ask_any(self._connection, wire.describe_cluster_request(), deadline)
            self._note("DescribeCluster", {answer.error_code: ["cluster"]})
            self._heard.operations = frozenset(int(operation) for operation in answer.authorized_operations or ())

    async def _metadata(self, deadline: Deadline) -> None:
        with self._asking("Metadata"):
            answer = await ask_any(self._connection, wire.metadata_request(authorized_operations=True), deadline)
            watched = [topic for topic in answer.topics if self._watch_topic(topic.name)]
            self._note("Metadata", _by_code((topic.error_code, topic.name) for topic in watched))
            self._heard.topics = frozenset(topic.name for topic in watched)
            for topic in watched:
                for partition in topic.partitions:
                    if partition.leader_id >= 0:
                        self._led[partition.leader_id][topic.name].append(partition.partition_index)

    async def _hidden(self, deadline: Deadline) -> None:
        """Topics that are only too new for the list, or just deleted, are not hidden: asked by name, Kafka tells."""
        for names in _parts_of(self._heard.hidden_topics()):
            answer = await ask_any(self._connection, wire.named_topics_request(names), deadline)
            new = {topic.name for topic in answer.topics if topic.error_code != TOPIC_REFUSED}
            self._heard.disk_topics = (self._heard.disk_topics or frozenset()) - new

    async def _groups(self, broker: int, deadline: Deadline) -> None:
        with self._asking("ListGroups", f"broker {broker}: "):
            answer = await self._connection.ask(broker, wire.list_groups_request(), deadline)
            self._note("ListGroups", {answer.error_code: [str(broker)]}, found=len(answer.groups))
            seen = {g.group_id: (g.group_type or "").lower() for g in answer.groups if self._watch_group(g.group_id)}
            self._coordinated[broker] = seen
            self._heard.groups |= seen.keys()

    async def _commits(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        with self._asking("OffsetFetch", f"broker {broker}: "):
            request = wire.offset_fetch_request(groups)
            if self._connection.supports(request):
                commits = decode_commits((await self._connection.ask(broker, request, deadline)).body)
                codes = [(commits.group_errors.get(group, 0), group) for group in commits.groups]
            else:
                answers = [
                    await self._connection.ask(broker, wire.offset_fetch_one_request(group), deadline)
                    for group in groups
                ]
                codes = [(answer.error_code, group) for group, answer in zip(groups, answers, strict=True)]
            self._note("OffsetFetch", _by_code(codes))

    async def _members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        with self._asking("DescribeGroups", f"broker {broker}: "):
            answer = await self._connection.ask(broker, wire.describe_groups_request(groups), deadline)
            self._note("DescribeGroups", _by_code((group.error_code, group.group_id) for group in answer.groups))

    async def _consumer_members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        if "ConsumerGroupDescribe" in self._heard.needless:
            return
        with self._asking("ConsumerGroupDescribe", f"broker {broker}: "):
            answer = await self._connection.ask(broker, wire.consumer_group_describe_request(groups), deadline)
            codes = _by_code((group.error_code, group.group_id) for group in answer.groups)
            self._note("ConsumerGroupDescribe", codes)

    async def _offsets(self, broker: int, deadline: Deadline) -> None:
        with self._asking("ListOffsets", f"broker {broker}: "):
            timeout_ms = int(deadline.left() * 1000)
            request = wire.list_offsets_request(self._led[broker], wire.LATEST, timeout_ms=timeout_ms)
            offsets = decode_offsets((await self._connection.ask(broker, request, deadline)).body)
            names = [
                f"{offsets.topics[code]}/{partition}"
                for code, partition in zip(offsets.topic_code, offsets.partition, strict=True)
            ]
            self._note("ListOffsets", _by_code(zip(np.asarray(offsets.error).tolist(), names, strict=True)))

    async def _configs(self, topics: Sequence[str], deadline: Deadline) -> None:
        with self._asking("DescribeConfigs"):
            request = wire.describe_topic_configs_request(topics, ["min.insync.replicas"])
            answer = await ask_any(self._connection, request, deadline)
            codes = _by_code((result.error_code, result.resource_name) for result in answer.results)
            self._note("DescribeConfigs", codes)

    async def _commit_log(self, deadline: Deadline) -> None:
        with self._asking("Fetch"):
            codes = await try_offsets_topic(self._connection, self._brokers, deadline)
            if codes is None:
                self._heard.needless["Fetch"] = "nothing was committed in this cluster yet: there is no offsets topic"
            else:
                self._note("Fetch", _by_code(codes))

    def _ask_disks(self) -> None:
        async def ask(deadline: Deadline) -> None:
            await connection.gather([self._disk(connection, broker, deadline) for broker in self._brokers])

        with self._asking("DescribeLogDirs"), _opened(self._options) as connection:
            connection.run(ask, self._seconds)

    async def _disk(self, connection: KafkaConnection, broker: int, deadline: Deadline) -> None:
        with self._asking("DescribeLogDirs", f"broker {broker}: "):
            answer = await connection.ask(broker, wire.describe_log_dirs_request(), deadline)
            dirs = decode_log_dirs(answer.body, answer.version)
            self._note("DescribeLogDirs", {dirs.error: [str(broker)]})
            if not dirs.error:
                seen = self._heard.disk_topics or frozenset()
                self._heard.disk_topics = seen | {topic for topic in dirs.topics if self._watch_topic(topic)}

    def _ask_quorum(self) -> None:
        async def ask(deadline: Deadline) -> None:
            request = wire.describe_quorum_request()
            if not connection.supports(request):
                self._heard.needless["DescribeQuorum"] = "the cluster has no quorum: it runs on ZooKeeper"
                return
            answer = await ask_any(connection, request, deadline)
            codes = [answer.error_code, *(part.error_code for topic in answer.topics for part in topic.partitions)]
            self._note("DescribeQuorum", {max(codes): ["quorum"]})

        with self._asking("DescribeQuorum"), _opened(self._options) as connection:
            connection.run(ask, self._seconds)

    @contextmanager
    def _asking(self, api: str, who: str = "") -> Iterator[None]:
        """Times a question, and keeps why it could not be asked."""
        start = time.monotonic()
        try:
            yield
        except SourceError as error:
            self._heard.unasked.setdefault(api, []).append(f"{who}{error}")
        finally:
            took = time.monotonic() - start
            self._heard.seconds[api] = max(self._heard.seconds.get(api, 0.0), took)

    def _note(self, api: str, by_code: dict[int, list[str]], found: int | None = None) -> None:
        """Count what was answered, keep what was refused."""
        good = by_code.get(0, [])
        answered = len(good) if found is None else found
        self._heard.answered[api] = self._heard.answered.get(api, 0) + answered
        for code, names in by_code.items():
            if code:
                self._heard.refused.setdefault(api, {}).setdefault(code, []).extend(names)


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


def _parts_of(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[first : first + _A_REQUEST] for first in range(0, len(names), _A_REQUEST)]
