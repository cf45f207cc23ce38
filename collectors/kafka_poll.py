"""The Kafka job: metadata, groups, commits, then start, end and last stable offsets, in one poll with one deadline.

Brokers are asked side by side. What one broker, group or partition cannot answer becomes a Failure and costs only what
it owns. Ends are asked after all commits have arrived, so that lag is never too small.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from collectors.kafka_client import requests as wire
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.metadata import Metadata, decode_metadata
from collectors.kafka_decode.offsets import CommittedOffsets, Offsets, decode_commits, decode_offsets
from collectors.kafka_decode.reader import CodeColumn
from collectors.kafka_rows.poll import poll_batches
from collectors.kafka_rows.poll_answers import DescribedMember, ListedGroup, PollAnswers
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure

SOURCE = "kafka"
_OFFSETS_TOPIC = "__consumer_offsets"
_GROUPS_A_REQUEST = 500
_NO_MEMBERS = {"Empty", "Dead"}
_CONSUMER = "consumer"  # the KIP-848 protocol: DescribeGroups would call such a group Dead
_SHARE = "share"  # share groups keep their own state, not committed offsets


class KafkaPoll:
    """Collects consumer_lag, consumer_group, group_member, topic_partition, topic, broker and cluster."""

    source = SOURCE

    def __init__(
        self,
        cluster: str,
        connection: Connection,
        *,
        topics: Callable[[str], bool] = lambda _: True,
        groups: Callable[[str], bool] = lambda _: True,
        min_isr: Callable[[], Mapping[str, int]] = dict,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._cluster = cluster
        self._connection = connection
        self._watch_topic = topics
        self._watch_group = groups
        self._min_isr = min_isr
        self._deadline_seconds = deadline_seconds
        self._answering: list[int] = []  # brokers that answered in the last poll: asked for metadata first

    def collect(self, now_ms: int) -> Collected:
        """Ask once; blocks at most the deadline and a second."""
        began = time.monotonic()
        try:
            poll = self._connection.run(self._ask, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(SOURCE, "", str(error))], complete=False)
        answers = poll.answers()
        batches = poll_batches(self._cluster, now_ms, answers, self._watch_topic, self._min_isr())
        reached = [f"broker {broker}" for broker in self._answering]
        return Collected(
            batches, poll.failures, reached, complete=answers.complete, ends_read=_since(began, poll.ends_asked)
        )

    async def _ask(self, deadline: Deadline) -> _Poll:
        metadata = await self._ask_metadata(deadline)
        poll = _Poll(self._connection, metadata, self._watch_topic, self._watch_group)
        await poll.ask_groups(deadline.sooner(deadline.left() * 0.6))
        await poll.ask_ends(deadline)
        self._answering = [broker for broker in poll.brokers if broker not in poll.unreachable]
        return poll

    async def _ask_metadata(self, deadline: Deadline) -> Metadata:
        """From whichever broker answers; a hung one costs a quarter of the deadline."""
        nodes = self._connection.nodes()
        candidates = [node for node in self._answering if node in nodes]
        candidates += [node for node in nodes if node not in candidates]
        reasons = []
        for node in candidates:
            try:
                body = await self._connection.ask(
                    node, wire.metadata_request(), deadline.sooner(self._deadline_seconds / 4)
                )
            except SourceError as error:
                reasons.append(f"broker {node}: {error}")
                continue
            metadata = decode_metadata(body.body)
            addresses = {broker.node: (broker.host, broker.port) for broker in metadata.brokers}
            if addresses != self._connection.addresses():
                await self._connection.refresh(node, deadline)
            return metadata
        raise SourceError("no broker gave metadata (" + "; ".join(reasons) + ")")


class _Poll:
    """One poll: what is heard, kept as bytes until the waiting is over, and who failed."""

    def __init__(
        self,
        connection: Connection,
        metadata: Metadata,
        watch_topic: Callable[[str], bool],
        watch_group: Callable[[str], bool],
    ) -> None:
        self._connection = connection
        self._metadata = metadata
        self._watch_group = watch_group
        self._led = _led_partitions(metadata, watch_topic)
        self.brokers = [broker.node for broker in metadata.brokers]
        self.failures: list[Failure] = [*_unregistered(metadata), *_leaderless(metadata, watch_topic)]
        self.unreachable: dict[int, str] = {}
        self._groups: list[ListedGroup] = []
        self._members: dict[str, list[DescribedMember]] = {}
        self._commit_bodies: list[bytes] = []
        self._commits: list[CommittedOffsets] = []  # of brokers that answer one group at a time
        self._offset_bodies: dict[str, list[bytes]] = {"starts": [], "ends": [], "stables": []}
        self.ends_asked: dict[int, tuple[float, float]] = {}  # when each broker was asked and had answered
        self._complete = not _offsets_topic_is_down(metadata)

    async def ask_groups(self, deadline: Deadline) -> None:
        """Groups with members and commits from every broker, and the log starts, side by side."""
        works = [self._ask_coordinator(broker, deadline) for broker in self.brokers]
        starts = [self._ask_offsets(broker, "starts", deadline) for broker in self._led if broker in self.brokers]
        await self._connection.gather([*works, *starts])

    async def ask_ends(self, deadline: Deadline) -> None:
        """End and last stable offsets; a broker that did not answer before is not waited for again."""
        leaders = [broker for broker in self._led if broker in self.brokers and broker not in self.unreachable]
        await self._connection.gather(
            [self._ask_offsets(broker, what, deadline) for broker in leaders for what in ("ends", "stables")]
        )
        self.failures += [Failure(SOURCE, f"broker {broker}", reason) for broker, reason in self.unreachable.items()]

    async def _ask(self, broker: int, request: Any, deadline: Deadline) -> Any:
        try:
            return await self._connection.ask(broker, request, deadline)
        except SourceError as error:
            self.unreachable.setdefault(broker, str(error))
            raise

    async def _ask_coordinator(self, broker: int, deadline: Deadline) -> None:
        try:
            listed = await self._ask(broker, wire.list_groups_request(), deadline)
        except SourceError:
            self._complete = False
            raise
        if listed.error_code:
            self._complete = False
            self.failures.append(Failure(SOURCE, f"groups of broker {broker}", wire.error_words(listed.error_code)))
        groups = [
            ListedGroup(g.group_id, g.group_state or "", (g.group_type or "").lower(), g.protocol_type, broker)
            for g in listed.groups
            if self._watch_group(g.group_id)
        ]
        self._groups += groups
        with_commits = [group.group for group in groups if group.type != _SHARE]
        await self._connection.gather(
            [
                *(self._ask_commits(broker, part, deadline) for part in _parts(with_commits)),
                *(self._ask_members(broker, part, deadline) for part in _parts(self._classic_with_members(groups))),
                *(
                    self._ask_consumer_members(broker, part, deadline)
                    for part in _parts([group.group for group in groups if group.type == _CONSUMER])
                ),
            ]
        )

    def _classic_with_members(self, groups: Sequence[ListedGroup]) -> list[str]:
        for group in groups:
            if group.state in _NO_MEMBERS:
                self._members[group.group] = []
        return [g.group for g in groups if g.type in ("", "classic") and g.state not in _NO_MEMBERS]

    async def _ask_commits(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        request = wire.offset_fetch_request(groups)
        if self._connection.supports(request):
            self._commit_bodies.append((await self._ask(broker, request, deadline)).body)
            return
        answers = await self._connection.gather(
            [self._ask(broker, wire.offset_fetch_one_request(group), deadline) for group in groups]
        )
        self._commits += [
            _commits_of_one(group, answer)
            for group, answer in zip(groups, answers, strict=True)
            if not isinstance(answer, SourceError)
        ]

    async def _ask_members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        answer = await self._ask(broker, wire.describe_groups_request(groups), deadline)
        errors = defaultdict(list)
        for group in answer.groups:
            if group.error_code:
                errors[group.error_code].append(group.group_id)
            elif group.group_state != "Dead":
                self._members[group.group_id] = [
                    _member(m.member_id, m.client_id, m.client_host, wire.decode_assignment(bytes(m.member_assignment)))
                    for m in group.members
                ]
        self._tell_groups(broker, "members", errors)

    async def _ask_consumer_members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        request = wire.consumer_group_describe_request(groups)
        if not self._connection.supports(request):
            return  # members stay unknown
        answer = await self._ask(broker, request, deadline)
        errors = defaultdict(list)
        for group in answer.groups:
            if group.error_code:
                errors[group.error_code].append(group.group_id)
                continue
            self._members[group.group_id] = [
                _member(
                    m.member_id,
                    m.client_id,
                    m.client_host,
                    [(part.topic_name, part.partitions) for part in m.assignment.topic_partitions],
                )
                for m in group.members
            ]
        self._tell_groups(broker, "members", errors)

    async def _ask_offsets(self, broker: int, what: str, deadline: Deadline) -> None:
        request = wire.list_offsets_request(
            self._led[broker],
            wire.EARLIEST if what == "starts" else wire.LATEST,
            committed_only=what == "stables",
            timeout_ms=int(deadline.left() * 1000),
        )
        sent = time.monotonic()
        self._offset_bodies[what].append((await self._ask(broker, request, deadline)).body)
        if what == "ends":
            self.ends_asked[broker] = (sent, time.monotonic())

    def answers(self) -> PollAnswers:
        """What was heard, decoded; errors inside the answers become failures."""
        commits = [*self._commits, *(decode_commits(body) for body in self._commit_bodies)]
        offsets = {what: [decode_offsets(body) for body in bodies] for what, bodies in self._offset_bodies.items()}
        asked = {group for part in commits for group in part.groups if group not in part.group_errors}
        for part in commits:
            errors = defaultdict(list)
            for group, error in part.group_errors.items():
                errors[error].append(group)
            coordinator = {group.group: group.coordinator for group in self._groups}
            for error, groups in errors.items():
                self._tell_groups(coordinator[groups[0]], "commits", {error: groups})
        for what, parts in offsets.items():
            self._tell_partitions(what, parts)
        return PollAnswers(
            self._metadata, self._groups, self._members, asked, commits, **offsets, complete=self._complete
        )

    def _tell_groups(self, broker: int, what: str, errors: dict[int, list[str]]) -> None:
        for code, groups in errors.items():
            reason = f"{what} of {wire.some(groups, 'group')}: {wire.error_words(code)}"
            self.failures.append(Failure(SOURCE, f"groups of broker {broker}", reason))

    def _tell_partitions(self, what: str, parts: Iterable[Offsets]) -> None:
        refused = defaultdict(list)
        for part in parts:
            for row in np.flatnonzero(part.error):
                refused[int(part.error[row])].append(f"{part.topics[part.topic_code[row]]}/{part.partition[row]}")
        for code, partitions in refused.items():
            reason = (
                f"{what.removesuffix('s')} offset of {wire.some(partitions, 'partition')}: {wire.error_words(code)}"
            )
            self.failures.append(Failure(SOURCE, "partitions", reason))


def _led_partitions(metadata: Metadata, watch_topic: Callable[[str], bool]) -> dict[int, dict[str, CodeColumn]]:
    """Watched partitions by leader and topic."""
    led: dict[int, dict[str, CodeColumn]] = defaultdict(dict)
    watched = np.array([watch_topic(topic) for topic in metadata.topics], dtype=bool)
    rows = np.flatnonzero(watched[metadata.topic_code] & (metadata.leader >= 0)) if len(watched) else np.zeros(0, int)
    order = rows[np.lexsort((metadata.topic_code[rows], metadata.leader[rows]))]
    leader, topic = metadata.leader[order], metadata.topic_code[order]
    cuts = np.flatnonzero(np.diff(leader) | np.diff(topic)) + 1
    for run in np.split(order, cuts):
        if len(run):
            topic_name = metadata.topics[metadata.topic_code[run[0]]]
            led[int(metadata.leader[run[0]])][topic_name] = metadata.partition[run]
    return led


def _since(began: float, moments: Mapping[int, tuple[float, float]]) -> dict[int, tuple[int, int]]:
    """Spans of the monotonic clock in whole milliseconds after a moment, never shorter than they were."""
    return {
        broker: (math.floor((first - began) * 1000), math.ceil((last - began) * 1000))
        for broker, (first, last) in moments.items()
    }


def _unregistered(metadata: Metadata) -> list[Failure]:
    """Brokers that hold replicas but are not part of the cluster now: dead, or not yet back."""
    registered = {broker.node for broker in metadata.brokers}
    nodes, replicas = np.unique(metadata.replica_broker, return_counts=True)
    return [
        Failure(SOURCE, f"broker {node}", f"not registered with the cluster; it holds {count} replicas")
        for node, count in zip(nodes.tolist(), replicas.tolist(), strict=True)
        if node not in registered
    ]


def _leaderless(metadata: Metadata, watch_topic: Callable[[str], bool]) -> list[Failure]:
    names = [
        f"{metadata.topics[metadata.topic_code[row]]}/{metadata.partition[row]}"
        for row in np.flatnonzero(metadata.leader < 0)
        if watch_topic(metadata.topics[metadata.topic_code[row]])
    ]
    return [Failure(SOURCE, "partitions", f"no leader for {wire.some(names, 'partition')}")] if names else []


def _offsets_topic_is_down(metadata: Metadata) -> bool:
    """Whether part of the commits has no coordinator, so that groups may exist that nobody lists."""
    if _OFFSETS_TOPIC not in metadata.topics:
        return False
    rows = metadata.topic_code == metadata.topics.index(_OFFSETS_TOPIC)
    return bool((metadata.leader[rows] < 0).any())


def _member(member: str, client_id: str, host: str, assignment: Iterable[tuple[str, Iterable[int]]]) -> DescribedMember:
    parts = tuple(sorted((topic, tuple(sorted(partitions))) for topic, partitions in assignment))
    return DescribedMember(member, client_id, host.removeprefix("/"), parts)


def _commits_of_one(group: str, answer: Any) -> CommittedOffsets:
    """A decoded OffsetFetch answer of one group, as the columnar decoder gives it."""
    topics = [topic.name for topic in answer.topics]
    rows = [(code, part) for code, topic in enumerate(answer.topics) for part in topic.partitions]
    return CommittedOffsets(
        [group],
        {group: answer.error_code} if answer.error_code else {},
        topics,
        np.zeros(len(rows), np.int32),
        np.array([code for code, _ in rows], np.int32),
        np.array([part.partition_index for _, part in rows], np.int32),
        np.array([part.committed_offset for _, part in rows], np.int64),
        np.array([part.error_code for _, part in rows], np.int32),
    )


def _parts(groups: Sequence[str]) -> list[Sequence[str]]:
    return [groups[first : first + _GROUPS_A_REQUEST] for first in range(0, len(groups), _GROUPS_A_REQUEST)]
