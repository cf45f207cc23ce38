"""Tails __consumer_offsets, so that no commit is missed and each has the time its coordinator wrote.

Each run returns everything written since the previous run, as rows of `commit`: several of one partition in order.
`order` is the offset in the offsets topic; all commits of a group are in one partition of it, so of two commits of a
group the later one has the higher order. A row without `committed_offset` is a deletion: of one partition's commit, or,
with an empty topic and partition -1, of the whole group. Its time is that of the record.

The first run looks back: ten minutes, which fill the windows of a group that commits once a minute, but no more than
50,000 records of each partition. Reading from the beginning takes minutes on a busy cluster and returns commits that are
too old to matter. A restart repeats the look-back; a commit keeps its order, so duplicates are recognised.

Needs Read on the topic. Without it commits come from polls only: a failure, or, with `optional`, a fallback that is
retried once a minute. A topic that does not exist, or that the cluster hides, is a fallback in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import refresh_brokers, request_any
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_client.error_codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from collectors.kafka_client.offsets_fetch import FetchLimits, OffsetsTopicFetch
from collectors.kafka_decode.offsets_topic import CommitRows, KeyTable, decode_records
from collectors.kafka_decode.record_batches import read_batch_headers
from collectors.kafka_decode.record_columns import read_records
from collectors.kafka_decode.transactions import OpenTransactions
from collectors.kafka_rows.commits import commit_batch, without_conversions
from lagwatch.errors import SourceError
from lagwatch.kafka_names import OFFSETS_TOPIC
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import BACKLOG, COMMITS

_MAX_KEYS = 300_000  # about 70 MB; above it the table is emptied and keys are decoded again
_RETRY_UNAUTHORIZED_MS = 60_000
UNAUTHORIZED = (
    f"this user may not read the topic {OFFSETS_TOPIC}, so commits come from polls instead:"
    f" grant the ACL Read on Topic {OFFSETS_TOPIC} (which includes Describe)"
)
MISSING = f"the topic {OFFSETS_TOPIC} does not exist yet or is hidden from this user, so commits come from polls"


class KafkaCommits:
    """Collects `commit`."""

    source = COMMITS

    def __init__(
        self,
        cluster: str,
        connection: Connection,
        *,
        topics: Callable[[str], bool] = lambda _: True,
        groups: Callable[[str], bool] = lambda _: True,
        limits: FetchLimits | None = None,
        optional: bool = False,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._cluster = cluster
        self._connection = connection
        self._limits = limits or FetchLimits()
        self._optional = optional
        self._deadline_seconds = deadline_seconds
        self._refused_ms: int | None = None  # when it was last refused
        self._read_ms = 0  # when it was last read
        self._keys = KeyTable(groups, topics)
        self._transactions = OpenTransactions()
        self._positions: dict[int, int] = {}
        self._topic_id: object = None
        self._behind: dict[int, int] = {}
        self.skipped = 0  # records since the start that are neither about offsets nor about groups

    @property
    def behind(self) -> int:
        """Records in the topic that did not fit into the last run."""
        return sum(self._behind.values())

    def collect(self, now_ms: int) -> Collected:
        """Fetch what is new; blocks at most the deadline and a second."""
        if self._optional and self._refused_ms is not None and 0 <= now_ms - self._refused_ms < _RETRY_UNAUTHORIZED_MS:
            return Collected([], [], complete=False, fallback=UNAUTHORIZED)
        try:
            run = self._connection.run(lambda deadline: self._fetch(now_ms, deadline), self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(COMMITS, "", str(error))], complete=False)
        self._refused_ms = now_ms if run.unauthorized else None
        if run.unauthorized or not run.leaders:
            return self._unavailable(run, now_ms)
        self._read_ms = now_ms
        for partition in run.lost:
            self._transactions.discard(partition)
        rows = self._decode(run)
        failures = [*run.failures, *self._failures(run)]
        reached = [f"broker {broker}" for broker in {*run.leaders.values()} - {*run.unreachable, -1}]
        batch = commit_batch(self._cluster, now_ms, rows, self._keys)
        return Collected([batch], failures, sorted(reached), complete=not failures)

    def _unavailable(self, run: OffsetsTopicFetch, now_ms: int) -> Collected:
        if now_ms - self._read_ms > self._limits.look_back_seconds * 1000:  # look back again, as at a start
            for partition in self._positions:
                self._transactions.discard(partition)
            self._positions = {}
        if run.unauthorized and not self._optional:
            return Collected([], [Failure(COMMITS, "", UNAUTHORIZED)], complete=False)
        return Collected([], [], complete=False, fallback=UNAUTHORIZED if run.unauthorized else MISSING)

    async def _fetch(self, now_ms: int, deadline: Deadline) -> OffsetsTopicFetch:
        leaders, topic_id = await self._fetch_leaders(deadline)
        run = OffsetsTopicFetch(self._connection, leaders or {}, dict(self._positions), self._limits, now_ms)
        run.unauthorized, run.topic_id = leaders is None, self._topic_id
        if leaders:
            if self._topic_id not in (None, topic_id):  # the topic was recreated: its offsets start again
                run.lost, run.positions = set(run.positions), {}
            run.topic_id = topic_id
            await run.fetch(deadline)
        return run

    async def _fetch_leaders(self, deadline: Deadline) -> tuple[dict[int, int] | None, object]:
        """The leader of each partition and the topic id; no partitions if nothing was ever committed.

        The leaders are None if this user may not describe the topic.
        """
        response = await request_any(self._connection, requests.named_topics_request([OFFSETS_TOPIC]), deadline)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        if addresses != self._connection.addresses():
            await refresh_brokers(self._connection, deadline)
        topic: Any = response.topics[0]
        if topic.error_code == TOPIC_AUTHORIZATION_FAILED:
            return None, None
        if topic.error_code and topic.error_code != UNKNOWN_TOPIC_OR_PARTITION:
            raise SourceError(f"{OFFSETS_TOPIC}: {requests.describe_error_code(topic.error_code)}")
        return {part.partition_index: part.leader_id for part in topic.partitions}, topic.topic_id

    def _decode(self, run: OffsetsTopicFetch) -> CommitRows:
        """The rows of everything fetched; advances the read positions."""
        if len(self._keys) > _MAX_KEYS:  # bound the memory: groups come and go
            before, self._keys = self._keys, self._keys.emptied()
            self._transactions.renumber(before, self._keys)
        parts: list[CommitRows] = []
        while run.fetched:
            response = run.fetched.pop(0)  # free each response as soon as it is decoded
            partition = np.repeat(np.array(list(response.counts), np.int32), list(response.counts.values()))
            batches = read_batch_headers(response.data, response.starts, partition)
            records = read_records(response.data, batches)
            decoded = decode_records(records, self._keys)
            parts += self._transactions.resolve(response.data, batches, decoded.rows, decoded.batch)
            self.skipped += decoded.skipped
            run.damaged += records.damaged
            run.damaged += [batches.position(batch, offset) for batch, offset in decoded.damaged]
        self._positions, self._behind, self._topic_id = run.positions, run.behind(), run.topic_id
        return without_conversions(_concatenate(parts), self._keys)

    def _failures(self, run: OffsetsTopicFetch) -> list[Failure]:
        failures = []
        if run.damaged:
            what = requests.list_names(run.damaged, "position")
            reason = f"{OFFSETS_TOPIC} could not be read at {what}; everything else was read"
            failures.append(Failure(COMMITS, "records", reason))
        if self._behind:
            partitions = requests.list_names([str(partition) for partition in sorted(self._behind)], "partition")
            reason = f"{self.behind} records of {partitions} of {OFFSETS_TOPIC} are not read yet"
            failures.append(Failure(COMMITS, BACKLOG, reason))
        if self._transactions.dropped:
            reason = f"{self._transactions.dropped} commits were dropped: their transactions did not end"
            failures.append(Failure(COMMITS, "transactions", reason))
            self._transactions.dropped = 0
        return failures


def _concatenate(parts: Sequence[CommitRows]) -> CommitRows:
    """All rows sorted by order: rows of a transaction arrive when it ends, after later rows outside it."""
    if not parts:
        nothing = np.zeros(0, np.int64)
        return CommitRows(nothing.astype(np.int32), nothing, nothing, nothing.astype(bool), nothing)
    joined = CommitRows(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("key", "order", "offset", "present", "time_ms")
        )
    )
    return joined.at(np.argsort(joined.order, kind="stable"))
