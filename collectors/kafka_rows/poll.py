"""Builds the batches of one poll from its decoded responses. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.metadata import Metadata
from collectors.kafka_decode.offsets import ListedOffsets
from collectors.kafka_rows.poll_answers import PollAnswers
from lagwatch.assignment_text import format_assignment
from lagwatch.batch import Batch, Masked, Texts, make_batch
from lagwatch.catalogue import BROKER, CLUSTER, CONSUMER_GROUP, CONSUMER_LAG, GROUP_MEMBER, TOPIC, TOPIC_PARTITION
from lagwatch.columns import distinct
from lagwatch.kafka_names import SHARE_TYPE
from lagwatch.verdict.sizing_limits import overfull_brokers
from lagwatch.verdict.suspect_broker import suspect_broker

Ints = npt.NDArray[np.int64]


def poll_batches(
    cluster: str, now_ms: int, answers: PollAnswers, watch_topic: Callable[[str], bool], min_isr: Mapping[str, int]
) -> list[Batch]:
    """All batches of one poll. The pipeline adds lag, staleness and totals, which take more than one poll.

    `min_isr` is min.insync.replicas by topic; partitions of topics it does not hold have no `under_min_isr`.
    """
    topics = _Topics.of(answers.metadata, watch_topic)
    under_min_isr = _under_min_isr(answers.metadata, min_isr)
    return [
        _topic_batch(cluster, now_ms, answers.metadata, topics),
        _partition_batch(cluster, now_ms, answers, topics, under_min_isr),
        _group_batch(cluster, now_ms, answers),
        _member_batch(cluster, now_ms, answers),
        _lag_batch(cluster, now_ms, answers, topics),
        _broker_batch(cluster, now_ms, answers.metadata),
        _cluster_batch(cluster, now_ms, answers, topics, under_min_isr),
    ]


@dataclass(frozen=True, slots=True)
class _Topics:
    """The watched topics: their codes in the metadata, and the rows of their partitions."""

    code: dict[str, int]
    partitions: Ints
    rows: Ints
    watched: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, metadata: Metadata, watch_topic: Callable[[str], bool]) -> _Topics:
        # A topic with an error (being deleted, not authorized) has no partitions and is not part of this poll.
        code = {
            name: code
            for code, name in enumerate(metadata.topics)
            if name not in metadata.topic_errors and watch_topic(name)
        }
        watched = np.zeros(len(metadata.topics), dtype=bool)
        watched[list(code.values())] = True
        counts = np.bincount(metadata.topic_code, minlength=len(metadata.topics)).astype(np.int64)
        return cls(code, counts, np.flatnonzero(watched[metadata.topic_code]), watched)

    def codes_of(self, names: Sequence[str]) -> Ints:
        """Codes of the topics named in a response; -1 for topics not watched."""
        return np.array([self.code.get(name, -1) for name in names], dtype=np.int64)


def _topic_batch(cluster: str, now_ms: int, metadata: Metadata, topics: _Topics) -> Batch:
    codes = np.fromiter(topics.code.values(), dtype=np.int64, count=len(topics.code))
    has_partitions = topics.partitions[codes] > 0
    first = np.where(has_partitions, metadata.first_row[codes], 0)
    replication = metadata.replicas[first] if len(metadata.replicas) else np.zeros(len(codes), np.int64)
    return make_batch(
        TOPIC,
        cluster,
        now_ms,
        {
            "topic": list(topics.code),
            "topic_id": [metadata.topic_ids[code] for code in codes],
            "partitions": topics.partitions[codes],
            "replication": Masked(replication, has_partitions),
        },
    )


def _under_min_isr(metadata: Metadata, min_isr: Mapping[str, int]) -> Masked:
    needed = np.array([min_isr.get(name, -1) for name in metadata.topics], dtype=np.int64)
    by_row = needed[metadata.topic_code] if len(needed) else np.zeros(0, np.int64)
    return Masked(metadata.in_sync < by_row, by_row >= 0)


def _partition_batch(cluster: str, now_ms: int, answers: PollAnswers, topics: _Topics, under_min_isr: Masked) -> Batch:
    metadata, rows = answers.metadata, topics.rows
    names, codes = distinct(metadata.topic_code[rows])
    leader = metadata.leader[rows]
    columns = {
        "topic": Texts(codes, [metadata.topics[code] for code in names]),
        "partition": metadata.partition[rows],
        "leader": Masked(leader, leader >= 0),
        "replicas": metadata.replicas[rows],
        "in_sync_replicas": metadata.in_sync[rows],
        "under_replicated": metadata.in_sync[rows] < metadata.replicas[rows],
        "under_min_isr": Masked(under_min_isr.values[rows], under_min_isr.known[rows]),
        "offline": leader < 0,
        "preferred_leader": leader == metadata.preferred[rows],
        "log_start_offset": _offset_column(metadata, topics, answers.starts),
        "log_end_offset": _offset_column(metadata, topics, answers.ends),
        "last_stable_offset": _offset_column(metadata, topics, answers.stables),
    }
    return make_batch(TOPIC_PARTITION, cluster, now_ms, columns)


def _offset_column(metadata: Metadata, topics: _Topics, parts: Sequence[ListedOffsets]) -> Masked:
    """Offsets from many responses at the rows of their partitions; null where there was no response."""
    values = np.zeros(len(metadata.partition), dtype=np.int64)
    known = np.zeros(len(metadata.partition), dtype=bool)
    for part in parts:
        code = topics.codes_of(part.topics)[part.topic_code] if part.topics else np.zeros(0, np.int64)
        good = (code >= 0) & (part.error == 0) & (part.offset >= 0)
        good[good] &= part.partition[good] < topics.partitions[code[good]]
        rows = metadata.first_row[code[good]] + part.partition[good]
        values[rows] = part.offset[good]
        known[rows] = True
    return Masked(values[topics.rows], known[topics.rows])


def _group_batch(cluster: str, now_ms: int, answers: PollAnswers) -> Batch:
    groups = answers.groups
    members = [answers.members.get(group.group) for group in groups]
    return make_batch(
        CONSUMER_GROUP,
        cluster,
        now_ms,
        {
            "group": [group.group for group in groups],
            "state": [group.state or None for group in groups],
            "type": [group.type or None for group in groups],
            "protocol_type": [group.protocol_type for group in groups],
            "coordinator": [group.coordinator for group in groups],
            "members": [None if described is None else len(described) for described in members],
            "empty_members": [
                None if described is None else sum(1 for member in described if not member.partitions)
                for described in members
            ],
            "stale": [group.group not in answers.groups_with_commits and group.type != SHARE_TYPE for group in groups],
        },
    )


def _member_batch(cluster: str, now_ms: int, answers: PollAnswers) -> Batch:
    rows = [(group, member) for group, members in answers.members.items() for member in members]
    return make_batch(
        GROUP_MEMBER,
        cluster,
        now_ms,
        {
            "group": [group for group, _ in rows],
            "member": [member.member for _, member in rows],
            "client_id": [member.client_id for _, member in rows],
            "host": [member.host for _, member in rows],
            "partitions": [member.partitions for _, member in rows],
            "assignment": [format_assignment(member.assignment) for _, member in rows],
        },
    )


def _lag_batch(cluster: str, now_ms: int, answers: PollAnswers, topics: _Topics) -> Batch:
    """Committed offsets of watched topics; a group that two brokers list while its coordinator moves counts once."""
    coordinator = {group.group: group.coordinator for group in answers.groups}
    group_number = {group: number for number, group in enumerate(coordinator)}
    group_codes, topic_codes, partitions, offsets = [], [], [], []
    for part in answers.commits:
        code = topics.codes_of(part.topics)[part.topic_code] if part.topics else np.zeros(0, np.int64)
        good = (code >= 0) & (part.error == 0) & (part.offset >= 0)
        good[good] &= part.partition[good] < topics.partitions[code[good]]
        # If two brokers list a group because its coordinator moves, the old one returns only errors.
        given = [-1 if group in part.group_errors else group_number.pop(group, -1) for group in part.groups]
        numbers = np.array(given, dtype=np.int32)
        group = numbers[part.group_code] if len(numbers) else np.zeros(0, np.int32)
        good &= group >= 0
        group_codes.append(group[good])
        topic_codes.append(code[good])
        partitions.append(part.partition[good])
        offsets.append(part.offset[good])
    names, dense = distinct(np.concatenate(topic_codes) if topic_codes else np.zeros(0, np.int64))
    return make_batch(
        CONSUMER_LAG,
        cluster,
        now_ms,
        {
            "group": Texts(np.concatenate(group_codes) if group_codes else np.zeros(0, np.int32), list(coordinator)),
            "topic": Texts(dense, [answers.metadata.topics[code] for code in names]),
            "partition": np.concatenate(partitions) if partitions else np.zeros(0, np.int32),
            "committed_offset": np.concatenate(offsets) if offsets else np.zeros(0, np.int64),
        },
    )


def _broker_batch(cluster: str, now_ms: int, metadata: Metadata) -> Batch:
    """Registered brokers, and brokers that only appear as replicas: a dead broker keeps its row."""
    registered = {broker.node: broker for broker in metadata.brokers}
    nodes = sorted({*registered, *np.unique(metadata.replica_broker).tolist()})
    return make_batch(
        BROKER,
        cluster,
        now_ms,
        {
            "broker": nodes,
            "host": [f"{registered[n].host}:{registered[n].port}" if n in registered else None for n in nodes],
            "rack": [registered[n].rack if n in registered else None for n in nodes],
            "registered": [n in registered for n in nodes],
            "leaders": _counts(metadata.leader, nodes),
            "partitions": _counts(metadata.replica_broker, nodes),
            "missing_from_isr": _counts(metadata.missing_broker, nodes),
            "preferred_leader_imbalance": _imbalance(metadata, nodes),
        },
    )


def _cluster_batch(cluster: str, now_ms: int, answers: PollAnswers, topics: _Topics, under_min_isr: Masked) -> Batch:
    """Counts over every topic this user can describe, watched or not: the filters do not apply to cluster health."""
    metadata = answers.metadata
    below = int((under_min_isr.values & under_min_isr.known).sum()) if under_min_isr.known.any() else None
    return make_batch(
        CLUSTER,
        cluster,
        now_ms,
        {
            "cluster_id": [metadata.cluster_id],
            "brokers": [len(metadata.brokers)],
            "topics": [len(topics.code)],
            "partitions": [len(topics.rows)],
            "groups": [len({group.group for group in answers.groups})],
            "under_replicated_partitions": [int((metadata.in_sync < metadata.replicas).sum())],
            "offline_partitions": [int((metadata.leader < 0).sum())],
            "under_min_isr_partitions": [below],
            "not_preferred_leader_partitions": [int((metadata.leader != metadata.preferred).sum())],
            "suspect_broker": [suspect_broker(metadata.missing_row, metadata.missing_broker)],
            "preferred_leader_imbalance": [
                _share(int((metadata.leader != metadata.preferred).sum()), len(metadata.leader))
            ],
            "overfull_brokers": [overfull_brokers(metadata.replica_broker)],
        },
    )


def _imbalance(metadata: Metadata, nodes: Sequence[int]) -> list[float | None]:
    """For each broker, the share of the partitions preferring it that another broker leads."""
    led_elsewhere = metadata.preferred[metadata.leader != metadata.preferred]
    pairs = zip(_counts(led_elsewhere, nodes), _counts(metadata.preferred, nodes), strict=True)
    return [_share(elsewhere, preferring) for elsewhere, preferring in pairs]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _counts(column: npt.NDArray[np.int32], nodes: Sequence[int]) -> list[int]:
    values, counts = np.unique(column, return_counts=True)
    by_node = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return [by_node.get(node, 0) for node in nodes]
