"""Polls metadata, groups, commits, and then start, end and last stable offsets, within one deadline.

Queries brokers in parallel. A broker that does not respond, or an error of a group or partition, becomes a Failure and
affects only that broker, group or partition. End offsets are fetched after all commits have arrived, so that lag is never
too small.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from collectors.kafka_client import requests
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_decode.metadata import Metadata, decode_metadata
from collectors.kafka_decode.offsets import CommittedOffsets, ListedOffsets, decode_list_offsets, decode_offset_fetch
from collectors.kafka_decode.reader import CodeColumn
from collectors.kafka_rows.poll import poll_batches
from collectors.kafka_rows.poll_answers import DescribedMember, ListedGroup, PollAnswers
from lagwatch.errors import SourceError
from lagwatch.kafka_names import CLASSIC_TYPES, CONSUMER_TYPE, OFFSETS_TOPIC, SHARE_TYPE, WITHOUT_MEMBERS
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import KAFKA

_GROUPS_PER_REQUEST = 500


class KafkaPoll:
    """Collects consumer_lag, consumer_group, group_member, topic_partition, topic, broker and cluster."""

    source = KAFKA

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
        self._responsive: list[int] = []  # brokers that responded in the last poll: tried first for metadata

    def collect(self, now_ms: int) -> Collected:
        """Poll once; blocks at most the deadline and a second."""
        began = time.monotonic()
        try:
            poll = self._connection.run(self._poll, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(KAFKA, "", str(error))], complete=False)
        answers = poll.answers()
        batches = poll_batches(self._cluster, now_ms, answers, self._watch_topic, self._min_isr())
        reached = [f"broker {broker}" for broker in self._responsive]
        return Collected(
            batches, poll.failures, reached, complete=answers.complete, ends_read=_millis_after(began, poll.ends_read)
        )

    async def _poll(self, deadline: Deadline) -> _Poll:
        metadata = await self._fetch_metadata(deadline)
        poll = _Poll(self._connection, metadata, self._watch_topic, self._watch_group)
        await poll.fetch_groups(deadline.at_most(deadline.remaining() * 0.6))
        await poll.fetch_ends(deadline)
        self._responsive = [broker for broker in poll.brokers if broker not in poll.unreachable]
        return poll

    async def _fetch_metadata(self, deadline: Deadline) -> Metadata:
        """Metadata from the first broker that responds; a hung broker takes a quarter of the deadline."""
        nodes = self._connection.nodes()
        candidates = [node for node in self._responsive if node in nodes]
        candidates += [node for node in nodes if node not in candidates]
        reasons = []
        for node in candidates:
            try:
                body = await self._connection.request(
                    node, requests.metadata_request(), deadline.at_most(self._deadline_seconds / 4)
                )
            except SourceError as error:
                reasons.append(f"broker {node}: {error}")
                continue
            metadata = decode_metadata(body.body)
            addresses = {broker.node: (broker.host, broker.port) for broker in metadata.brokers}
            if addresses != self._connection.addresses():
                await self._connection.refresh(node, deadline)
            return metadata
        raise SourceError("no broker returned metadata (" + "; ".join(reasons) + ")")


class _Poll:
    """One poll: the responses, kept undecoded until all have arrived, and the failures."""

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
        self._commits: list[CommittedOffsets] = []  # from brokers that accept one group per request
        self._offset_bodies: dict[str, list[bytes]] = {"starts": [], "ends": [], "stables": []}
        self.ends_read: dict[int, tuple[float, float]] = {}  # when each request was sent and answered
        self._complete = not _offsets_topic_is_down(metadata)

    async def fetch_groups(self, deadline: Deadline) -> None:
        """Fetch groups, members and commits from every broker, and the log start offsets, in parallel."""
        tasks = [self._fetch_coordinator(broker, deadline) for broker in self.brokers]
        starts = [self._fetch_offsets(broker, "starts", deadline) for broker in self._led if broker in self.brokers]
        await self._connection.gather([*tasks, *starts])

    async def fetch_ends(self, deadline: Deadline) -> None:
        """Fetch end and last stable offsets; skips brokers that did not respond before."""
        leaders = [broker for broker in self._led if broker in self.brokers and broker not in self.unreachable]
        await self._connection.gather(
            [self._fetch_offsets(broker, what, deadline) for broker in leaders for what in ("ends", "stables")]
        )
        self.failures += [Failure(KAFKA, f"broker {broker}", reason) for broker, reason in self.unreachable.items()]

    async def _request(self, broker: int, request: Any, deadline: Deadline) -> Any:
        try:
            return await self._connection.request(broker, request, deadline)
        except SourceError as error:
            self.unreachable.setdefault(broker, str(error))
            raise

    async def _fetch_coordinator(self, broker: int, deadline: Deadline) -> None:
        try:
            listed = await self._request(broker, requests.list_groups_request(), deadline)
        except SourceError:
            self._complete = False
            raise
        if listed.error_code:
            self._complete = False
            self.failures.append(
                Failure(KAFKA, f"groups of broker {broker}", requests.describe_error_code(listed.error_code))
            )
        groups = [
            ListedGroup(g.group_id, g.group_state or "", (g.group_type or "").lower(), g.protocol_type, broker)
            for g in listed.groups
            if self._watch_group(g.group_id)
        ]
        self._groups += groups
        with_commits = [group.group for group in groups if group.type != SHARE_TYPE]
        await self._connection.gather(
            [
                *(self._fetch_commits(broker, part, deadline) for part in _chunks(with_commits)),
                *(self._fetch_members(broker, part, deadline) for part in _chunks(self._classic_with_members(groups))),
                *(
                    self._fetch_consumer_members(broker, part, deadline)
                    for part in _chunks([group.group for group in groups if group.type == CONSUMER_TYPE])
                ),
            ]
        )

    def _classic_with_members(self, groups: Sequence[ListedGroup]) -> list[str]:
        for group in groups:
            if group.state in WITHOUT_MEMBERS:
                self._members[group.group] = []
        return [g.group for g in groups if g.type in CLASSIC_TYPES and g.state not in WITHOUT_MEMBERS]

    async def _fetch_commits(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        request = requests.offset_fetch_request(groups)
        if self._connection.supports(request):
            self._commit_bodies.append((await self._request(broker, request, deadline)).body)
            return
        responses = await self._connection.gather(
            [self._request(broker, requests.offset_fetch_one_request(group), deadline) for group in groups]
        )
        self._commits += [
            _commits_of_one(group, response)
            for group, response in zip(groups, responses, strict=True)
            if not isinstance(response, SourceError)
        ]

    async def _fetch_members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        response = await self._request(broker, requests.describe_groups_request(groups), deadline)
        errors = defaultdict(list)
        for group in response.groups:
            if group.error_code:
                errors[group.error_code].append(group.group_id)
            elif group.group_state != "Dead":
                self._members[group.group_id] = [
                    _member(
                        m.member_id, m.client_id, m.client_host, requests.decode_assignment(bytes(m.member_assignment))
                    )
                    for m in group.members
                ]
        self._add_group_failures(broker, "members", errors)

    async def _fetch_consumer_members(self, broker: int, groups: Sequence[str], deadline: Deadline) -> None:
        request = requests.consumer_group_describe_request(groups)
        if not self._connection.supports(request):
            return  # the members are unknown
        response = await self._request(broker, request, deadline)
        errors = defaultdict(list)
        for group in response.groups:
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
        self._add_group_failures(broker, "members", errors)

    async def _fetch_offsets(self, broker: int, what: str, deadline: Deadline) -> None:
        request = requests.list_offsets_request(
            self._led[broker],
            requests.EARLIEST if what == "starts" else requests.LATEST,
            committed_only=what == "stables",
            timeout_ms=int(deadline.remaining() * 1000),
        )
        sent = time.monotonic()
        self._offset_bodies[what].append((await self._request(broker, request, deadline)).body)
        if what == "ends":
            self.ends_read[broker] = (sent, time.monotonic())

    def answers(self) -> PollAnswers:
        """The decoded responses; error codes in them become failures."""
        commits = [*self._commits, *(decode_offset_fetch(body) for body in self._commit_bodies)]
        offsets = {what: [decode_list_offsets(body) for body in bodies] for what, bodies in self._offset_bodies.items()}
        groups_with_commits = {group for part in commits for group in part.groups if group not in part.group_errors}
        for part in commits:
            errors = defaultdict(list)
            for group, error in part.group_errors.items():
                errors[error].append(group)
            coordinator = {group.group: group.coordinator for group in self._groups}
            for error, groups in errors.items():
                self._add_group_failures(coordinator[groups[0]], "commits", {error: groups})
        for what, parts in offsets.items():
            self._add_partition_failures(what, parts)
        return PollAnswers(
            self._metadata,
            self._groups,
            self._members,
            groups_with_commits,
            commits,
            **offsets,
            complete=self._complete,
        )

    def _add_group_failures(self, broker: int, what: str, errors: dict[int, list[str]]) -> None:
        for code, groups in errors.items():
            reason = f"{what} of {requests.list_names(groups, 'group')}: {requests.describe_error_code(code)}"
            self.failures.append(Failure(KAFKA, f"groups of broker {broker}", reason))

    def _add_partition_failures(self, what: str, parts: Iterable[ListedOffsets]) -> None:
        by_code = defaultdict(list)
        for part in parts:
            for row in np.flatnonzero(part.error):
                by_code[int(part.error[row])].append(f"{part.topics[part.topic_code[row]]}/{part.partition[row]}")
        for code, partitions in by_code.items():
            names = requests.list_names(partitions, "partition")
            reason = f"{what.removesuffix('s')} offset of {names}: {requests.describe_error_code(code)}"
            self.failures.append(Failure(KAFKA, "partitions", reason))


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


def _millis_after(began: float, spans: Mapping[int, tuple[float, float]]) -> dict[int, tuple[int, int]]:
    """Spans of the monotonic clock in milliseconds after `began`, rounded outwards."""
    return {
        broker: (math.floor((first - began) * 1000), math.ceil((last - began) * 1000))
        for broker, (first, last) in spans.items()
    }


def _unregistered(metadata: Metadata) -> list[Failure]:
    """Brokers that hold replicas but are not registered now: dead, or not yet restarted."""
    registered = {broker.node for broker in metadata.brokers}
    nodes, replicas = np.unique(metadata.replica_broker, return_counts=True)
    return [
        Failure(KAFKA, f"broker {node}", f"not registered with the cluster; it holds {count} replicas")
        for node, count in zip(nodes.tolist(), replicas.tolist(), strict=True)
        if node not in registered
    ]


def _leaderless(metadata: Metadata, watch_topic: Callable[[str], bool]) -> list[Failure]:
    names = [
        f"{metadata.topics[metadata.topic_code[row]]}/{metadata.partition[row]}"
        for row in np.flatnonzero(metadata.leader < 0)
        if watch_topic(metadata.topics[metadata.topic_code[row]])
    ]
    return [Failure(KAFKA, "partitions", f"no leader for {requests.list_names(names, 'partition')}")] if names else []


def _offsets_topic_is_down(metadata: Metadata) -> bool:
    """Whether a partition of the offsets topic has no leader: its groups have no coordinator, so none lists them."""
    if OFFSETS_TOPIC not in metadata.topics:
        return False
    rows = metadata.topic_code == metadata.topics.index(OFFSETS_TOPIC)
    return bool((metadata.leader[rows] < 0).any())


def _member(member: str, client_id: str, host: str, assignment: Iterable[tuple[str, Iterable[int]]]) -> DescribedMember:
    parts = tuple(sorted((topic, tuple(sorted(partitions))) for topic, partitions in assignment))
    return DescribedMember(member, client_id, host.removeprefix("/"), parts)


def _commits_of_one(group: str, response: Any) -> CommittedOffsets:
    """A decoded OffsetFetch response of one group, in the form of the columnar decoder."""
    topics = [topic.name for topic in response.topics]
    rows = [(code, part) for code, topic in enumerate(response.topics) for part in topic.partitions]
    return CommittedOffsets(
        [group],
        {group: response.error_code} if response.error_code else {},
        topics,
        np.zeros(len(rows), np.int32),
        np.array([code for code, _ in rows], np.int32),
        np.array([part.partition_index for _, part in rows], np.int32),
        np.array([part.committed_offset for _, part in rows], np.int64),
        np.array([part.error_code for _, part in rows], np.int32),
    )


def _chunks(groups: Sequence[str]) -> list[Sequence[str]]:
    return [groups[first : first + _GROUPS_PER_REQUEST] for first in range(0, len(groups), _GROUPS_PER_REQUEST)]
