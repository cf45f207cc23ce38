"""Checks whether a small remaining lag is only transaction markers, by fetching the last offsets before the log end.

The pipeline supplies the query; each broker gets one Fetch request for all partitions it leads. Uses its own connections:
a broker may have to read old segments, and the polls must not wait for that. Needs the ACL Read on the topics; a topic
without it gets no answer and is not requested again for an hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import refresh_brokers
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_client.error_codes import OFFSET_OUT_OF_RANGE, TOPIC_AUTHORIZATION_FAILED
from collectors.kafka_decode.fetch import DecodedFetch, decode_fetch
from collectors.kafka_decode.unread import tail_content
from lagwatch.broker_queries import TailAnswers, TailContent, TailQuery
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import UNREAD

_PARTITION_BYTES = 8 * 1024  # ten markers take less than 1 KiB; a longer tail holds records
_RETRY_UNAUTHORIZED_MS = 3_600_000
PartitionRows = dict[tuple[str, int], int]  # the query's row of each topic and partition


class KafkaUnread:
    """Answers the pipeline's `TailQuery`; writes no batches. Without a query it does not connect."""

    source = UNREAD

    def __init__(
        self,
        connection: Connection,
        *,
        next_query: Callable[[], TailQuery | None] = lambda: None,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._connection = connection
        self._next_query = next_query
        self._deadline_seconds = deadline_seconds
        self._refused: dict[str, int] = {}  # topics this user may not read, with the time of the refusal

    def collect(self, now_ms: int) -> Collected:
        """Fetch once; blocks at most the deadline and a second."""
        # abs(): a wall clock that was set back must not lengthen the hour.
        self._refused = {topic: at for topic, at in self._refused.items() if abs(now_ms - at) < _RETRY_UNAUTHORIZED_MS}
        query = self._next_query()
        by_leader = {} if query is None else rows_by_leader(query, self._refused)
        if query is None or not by_leader:
            return Collected([], [])
        try:
            responses = self._connection.run(
                lambda deadline: self._fetch(query, by_leader, deadline), self._deadline_seconds
            )
        except SourceError as error:
            return Collected([], [Failure(UNREAD, "", str(error))], complete=False)
        failures, reached = [], []
        contents: dict[int, TailContent] = {}
        for (broker, rows), response in zip(by_leader.items(), responses, strict=True):
            if isinstance(response, SourceError):
                failures.append(Failure(UNREAD, f"broker {broker}", str(response)))
                continue
            reached.append(f"broker {broker}")
            failures += self._read_response(query, rows, response, contents, now_ms)
        return Collected([], failures, reached, complete=not failures, tail_answers=_answered(query, contents))

    async def _fetch(
        self, query: TailQuery, by_leader: Mapping[int, PartitionRows], deadline: Deadline
    ) -> list[DecodedFetch | SourceError]:
        if not by_leader.keys() <= set(self._connection.nodes()):
            await refresh_brokers(self._connection, deadline)
        return await self._connection.gather(
            [self._fetch_from(broker, query, rows, deadline) for broker, rows in by_leader.items()]
        )

    async def _fetch_from(self, broker: int, query: TailQuery, rows: PartitionRows, deadline: Deadline) -> DecodedFetch:
        positions: dict[str, dict[int, int]] = defaultdict(dict)
        for (topic, partition), row in rows.items():
            positions[topic][partition] = int(query.offset[row])
        request = requests.fetch_topics_request(
            positions,
            max_bytes=len(rows) * _PARTITION_BYTES,
            partition_bytes=_PARTITION_BYTES,
            committed_only=True,
        )
        response = decode_fetch((await self._connection.request(broker, request, deadline)).body)
        if response.error:
            raise SourceError(requests.describe_error_code(response.error))
        return response

    def _read_response(
        self,
        query: TailQuery,
        rows: PartitionRows,
        response: DecodedFetch,
        contents: dict[int, TailContent],
        now_ms: int,
    ) -> list[Failure]:
        """Add the content of each row in one broker's response; an error in a partition affects only that partition."""
        errors: dict[int, list[str]] = defaultdict(list)
        for found in response.partitions:
            row = rows.get((found.topic, found.partition))
            if row is None:
                continue
            if found.error == TOPIC_AUTHORIZATION_FAILED:
                self._refused[found.topic] = now_ms
            elif found.error == OFFSET_OUT_OF_RANGE:  # deleted or truncated since the query
                contents[row] = TailContent.UNKNOWN
            elif found.error:
                errors[found.error].append(f"{found.topic}/{found.partition}")
            else:
                contents[row] = tail_content(response.body, found, int(query.end[row]))
        return [
            Failure(
                UNREAD,
                "partitions",
                f"unread tail of {requests.list_names(names, 'partition')}: {requests.describe_error_code(code)}",
            )
            for code, names in errors.items()
        ]


def rows_by_leader(query: TailQuery, refused: Mapping[str, int]) -> dict[int, PartitionRows]:
    """The query's rows by leader; rows without a leader wait for one, rows of refused topics for the next retry."""
    by_leader: dict[int, PartitionRows] = defaultdict(dict)
    for row in np.flatnonzero(query.leader >= 0).tolist():
        topic = query.topic.values[query.topic.codes[row]]
        if topic not in refused:
            by_leader[int(query.leader[row])][topic, int(query.partition[row])] = row
    return dict(by_leader)


def _answered(query: TailQuery, contents: Mapping[int, TailContent]) -> TailAnswers | None:
    if not contents:
        return None
    rows: npt.NDArray[np.intp] = np.fromiter(contents, np.intp, len(contents))
    content = np.fromiter(contents.values(), np.int8, len(contents))
    return TailAnswers(query.key[rows], query.offset[rows], query.end[rows], content)
