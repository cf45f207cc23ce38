"""Looks up offsets by timestamp: the first record at or after a time, with a time for each partition.

The pipeline supplies the query; each broker gets one ListOffsets request for all partitions it leads. Uses its own
connections: a broker may have to search old segments or remote storage, and the polls must not wait for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import refresh_brokers
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_decode.offsets import ListedOffsets, decode_list_offsets
from lagwatch.broker_queries import MAX_TIMESTAMP_QUERIES, TimestampAnswers, TimestampQuery
from lagwatch.columns import find, partition_keys
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import TIMESTAMPS

RowIndex = npt.NDArray[np.intp]


class KafkaTimestamps:
    """Answers the pipeline's `TimestampQuery`; writes no batches. Without a query it does not connect."""

    source = TIMESTAMPS

    def __init__(
        self,
        connection: Connection,
        *,
        next_query: Callable[[], TimestampQuery | None] = lambda: None,
        max_partitions: int = MAX_TIMESTAMP_QUERIES,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._connection = connection
        self._next_query = next_query
        self._max_partitions = max_partitions
        self._deadline_seconds = deadline_seconds

    def collect(self, now_ms: int) -> Collected:  # noqa: ARG002
        """Fetch up to `max_partitions` of the query once; blocks at most the deadline and a second."""
        query = self._next_query()
        if query is None or not len(query):
            return Collected([], [])
        by_leader = _by_leader(query, self._max_partitions)
        try:
            responses = self._connection.run(
                lambda deadline: self._fetch(query, by_leader, deadline), self._deadline_seconds
            )
        except SourceError as error:
            return Collected([], [Failure(TIMESTAMPS, "", str(error))], complete=False)
        failures, reached, found = [], [], []
        for (broker, rows), response in zip(by_leader.items(), responses, strict=True):
            if isinstance(response, SourceError):
                failures.append(Failure(TIMESTAMPS, f"broker {broker}", str(response)))
                continue
            reached.append(f"broker {broker}")
            offsets = decode_list_offsets(response)
            failures += _partition_failures(offsets)
            found.append(_matched(query, rows, offsets))
        timestamp_answers = _concatenate(found) if found else None
        return Collected([], failures, reached, complete=not failures, timestamp_answers=timestamp_answers)

    async def _fetch(
        self, query: TimestampQuery, by_leader: dict[int, RowIndex], deadline: Deadline
    ) -> list[bytes | SourceError]:
        if not by_leader.keys() <= set(self._connection.nodes()):
            await refresh_brokers(self._connection, deadline)
        return await self._connection.gather(
            [self._fetch_from(broker, query, rows, deadline) for broker, rows in by_leader.items()]
        )

    async def _fetch_from(self, broker: int, query: TimestampQuery, rows: RowIndex, deadline: Deadline) -> bytes:
        cuts = np.flatnonzero(np.diff(query.topic.codes[rows])) + 1
        partitions = {
            query.topic.values[query.topic.codes[run[0]]]: query.partition[run] for run in np.split(rows, cuts)
        }
        request = requests.list_offsets_request(
            partitions, query.target_ms[rows], timeout_ms=int(deadline.remaining() * 1000)
        )
        body: bytes = (await self._connection.request(broker, request, deadline)).body
        return body


def _by_leader(query: TimestampQuery, limit: int) -> dict[int, RowIndex]:
    """The query's rows by leader, sorted by topic and partition; rows without a leader wait for one."""
    rows = np.flatnonzero(query.leader >= 0)[:limit]
    rows = rows[np.lexsort((query.partition[rows], query.topic.codes[rows], query.leader[rows]))]
    runs = np.split(rows, np.flatnonzero(np.diff(query.leader[rows])) + 1)
    return {int(query.leader[run[0]]): run for run in runs if len(run)}


def _matched(query: TimestampQuery, rows: RowIndex, offsets: ListedOffsets) -> TimestampAnswers:
    """The answers matched to the query's rows; a broker may respond in another order, and not for all rows."""
    code_of = {query.topic.values[code]: code for code in np.unique(query.topic.codes[rows]).tolist()}
    codes = np.array([code_of.get(topic, -1) for topic in offsets.topics], dtype=np.int64)
    good = offsets.error == 0
    good[good] &= codes[offsets.topic_code[good]] >= 0
    requested = partition_keys(query.topic.codes[rows].astype(np.int64), query.partition[rows])
    at, found = find(requested, partition_keys(codes[offsets.topic_code[good]], offsets.partition[good]))
    answered = rows[at[found]]
    return TimestampAnswers(
        query.key[answered],
        query.target_ms[answered],
        query.end[answered],
        offsets.offset[good][found],
        offsets.time[good][found],
    )


def _concatenate(parts: Sequence[TimestampAnswers]) -> TimestampAnswers:
    columns = ("key", "target_ms", "end", "offset", "time_ms")
    return TimestampAnswers(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def _partition_failures(offsets: ListedOffsets) -> list[Failure]:
    by_code = defaultdict(list)
    for row in np.flatnonzero(offsets.error):
        by_code[int(offsets.error[row])].append(f"{offsets.topics[offsets.topic_code[row]]}/{offsets.partition[row]}")
    return [
        Failure(
            TIMESTAMPS,
            "partitions",
            f"timestamps of {requests.list_names(names, 'partition')}: {requests.describe_error_code(code)}",
        )
        for code, names in by_code.items()
    ]
