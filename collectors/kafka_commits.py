"""The commits job: tails __consumer_offsets, so that every commit is seen, with the time the coordinator gave it.

Each run brings all that was written since the one before, as rows of `commit`: several of one partition in their order.
`order` is the position in the offsets topic; a group always lives in one partition of it, so of two commits of a group
the later one has the higher order. A row without `committed_offset` is a deletion: of one partition's commit, or, with
an empty topic and partition -1, of the whole group. Its time is that of the record.

The first run looks back: ten minutes, which fill the windows of a group that commits once a minute, but no more than
some thousand records of each partition. Reading from the beginning, as others do, takes minutes on a busy cluster and
brings commits nobody asks about. After a restart the look-back comes again; a commit keeps its order, so it is known.

Needs Read on the topic. Without it the failure says so, and `available` is false: commits then come from polls alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import ask_any, refresh_from_any
from collectors.kafka_client.offsets_fetch import OFFSETS_TOPIC, SOURCE, TOPIC_REFUSED, CommitsRun, FetchLimits
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.offsets_topic import CommitRows, Keys, decode_records
from collectors.kafka_decode.record_batches import read_heads
from collectors.kafka_decode.record_columns import read_records
from collectors.kafka_decode.transactions import OpenTransactions
from collectors.kafka_rows.commits import commit_batch, without_conversions
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure

_UNKNOWN_TOPIC = 3
_MOST_KEYS = 300_000  # some 70 MB; above it keys are decoded again now and then
REFUSED = (
    f"this user may not read the topic {OFFSETS_TOPIC}: it needs the ACL Read on Topic {OFFSETS_TOPIC}"
    " (which includes Describe); until then commits are judged from polls instead"
)


class KafkaCommits:
    """Collects `commit`."""

    source = SOURCE

    def __init__(
        self,
        cluster: str,
        connection: Connection,
        *,
        topics: Callable[[str], bool] = lambda _: True,
        groups: Callable[[str], bool] = lambda _: True,
        limits: FetchLimits | None = None,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._cluster = cluster
        self._connection = connection
        self._limits = limits or FetchLimits()
        self._deadline_seconds = deadline_seconds
        self._keys = Keys(groups, topics)
        self._transactions = OpenTransactions()
        self._positions: dict[int, int] = {}
        self._topic_id: object = None
        self._available = False
        self._behind: dict[int, int] = {}
        self.passed_over = 0  # records about other things than offsets and groups, since the start

    @property
    def available(self) -> bool:
        """Whether commits come from the topic: false before the first answer and while this user may not read it."""
        return self._available

    @property
    def behind(self) -> int:
        """Records that were written but did not fit into the last run."""
        return sum(self._behind.values())

    def collect(self, now_ms: int) -> Collected:
        """Read what is new; blocks at most the deadline and a second."""
        try:
            run = self._connection.run(lambda deadline: self._ask(now_ms, deadline), self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(SOURCE, "", str(error))], complete=False)
        self._available = not run.refused
        if run.refused:
            return Collected([], [Failure(SOURCE, "", REFUSED)], complete=False)
        for partition in run.lost:
            self._transactions.forget(partition)
        rows = self._decode(run)
        failures = [*run.failures, *self._tell(run)]
        reached = [f"broker {broker}" for broker in {*run.leaders.values()} - {*run.unreachable, -1}]
        batch = commit_batch(self._cluster, now_ms, rows, self._keys)
        return Collected([batch], failures, sorted(reached), complete=not failures)

    async def _ask(self, now_ms: int, deadline: Deadline) -> CommitsRun:
        leaders, topic_id = await self._ask_leaders(deadline)
        run = CommitsRun(self._connection, leaders or {}, dict(self._positions), self._limits, now_ms)
        run.refused, run.topic_id = leaders is None, self._topic_id
        if leaders:
            if self._topic_id not in (None, topic_id):  # made anew: what stands at a position is something else now
                run.lost, run.positions = set(run.positions), {}
            run.topic_id = topic_id
            await run.ask(deadline)
        return run

    async def _ask_leaders(self, deadline: Deadline) -> tuple[dict[int, int] | None, object]:
        """The leader of each partition, none where nothing was ever committed; None when the topic may not be seen."""
        answer = await ask_any(self._connection, wire.named_topics_request([OFFSETS_TOPIC]), deadline)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        if addresses != self._connection.addresses():
            await refresh_from_any(self._connection, deadline)
        topic: Any = answer.topics[0]
        if topic.error_code == TOPIC_REFUSED:
            return None, None
        if topic.error_code and topic.error_code != _UNKNOWN_TOPIC:
            raise SourceError(f"{OFFSETS_TOPIC}: {wire.error_words(topic.error_code)}")
        return {part.partition_index: part.leader_id for part in topic.partitions}, topic.topic_id

    def _decode(self, run: CommitsRun) -> CommitRows:
        """The rows of everything fetched; from here on it counts as read."""
        if len(self._keys) > _MOST_KEYS:  # groups come and go; nothing grows for ever
            before, self._keys = self._keys, self._keys.anew()
            self._transactions.renumber(before, self._keys)
        parts: list[CommitRows] = []
        while run.fetched:
            answer = run.fetched.pop(0)  # let go of the bytes one by one
            partition = np.repeat(np.array(list(answer.counts), np.int32), list(answer.counts.values()))
            batches = read_heads(answer.data, answer.places, partition)
            records = read_records(answer.data, batches)
            decoded = decode_records(records, self._keys)
            parts += self._transactions.settle(answer.data, batches, decoded.rows, decoded.batch)
            self.passed_over += decoded.passed_over
            run.damaged += records.damaged
            run.damaged += [batches.place(batch, offset) for batch, offset in decoded.damaged]
        self._positions, self._behind, self._topic_id = run.positions, run.behind(), run.topic_id
        return without_conversions(_joined(parts), self._keys)

    def _tell(self, run: CommitsRun) -> list[Failure]:
        failures = []
        if run.damaged:
            what = wire.some(run.damaged, "place")
            reason = f"what stands in {OFFSETS_TOPIC} at {what} could not be read; the rest was"
            failures.append(Failure(SOURCE, "records", reason))
        if self._behind:
            partitions = wire.some([str(partition) for partition in sorted(self._behind)], "partition")
            reason = f"{self.behind} records of {partitions} of {OFFSETS_TOPIC} are still to be read"
            failures.append(Failure(SOURCE, "backlog", reason))
        if self._transactions.given_up:
            reason = f"{self._transactions.given_up} commits of transactions that do not end were dropped"
            failures.append(Failure(SOURCE, "transactions", reason))
            self._transactions.given_up = 0
        return failures


def _joined(parts: Sequence[CommitRows]) -> CommitRows:
    """All rows by order: those of a transaction come when it ends, after younger ones of others."""
    if not parts:
        nothing = np.zeros(0, np.int64)
        return CommitRows(nothing.astype(np.int32), nothing, nothing, nothing.astype(bool), nothing)
    joined = CommitRows(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("key", "order", "offset", "known", "time_ms")
        )
    )
    return joined.at(np.argsort(joined.order, kind="stable"))
