"""Is what a group has not read anything to read? Looks at the few offsets behind those who stand just before an end.

The pipeline says where they stand; every broker is asked once, for all partitions it leads. On connections of its own:
a broker may have to read old segments, and the polls must not wait behind that. It takes the ACL Read on the topics;
where that is missing nothing is told of the topic, and nobody is asked again for an hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import refresh_from_any
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.fetch import Fetched, decode_fetch
from collectors.kafka_decode.unread import what_is_left
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.queries import TailAnswers, TailContent, TailQuery

SOURCE = "kafka_unread"
_OUT_OF_RANGE, _TOPIC_REFUSED = 1, 29
_PARTITION_BYTES = 8 * 1024  # ten markers take less than one; whoever needs more has records
_REFUSED_MS = 3_600_000
Asked = dict[tuple[str, int], int]  # the row of each topic and partition


class KafkaMarkers:
    """Brings answers about what is left to read; no batches. When nothing is wanted it does not even connect."""

    source = SOURCE

    def __init__(
        self,
        connection: Connection,
        *,
        wanted: Callable[[], TailQuery | None] = lambda: None,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._deadline_seconds = deadline_seconds
        self._refused: dict[str, int] = {}  # topics that may not be read, and since when

    def collect(self, now_ms: int) -> Collected:
        """Ask once; blocks at most the deadline and a second."""
        # Either way round: a wall clock that was set back must not make the hour longer.
        self._refused = {topic: at for topic, at in self._refused.items() if abs(now_ms - at) < _REFUSED_MS}
        wanted = self._wanted()
        by_leader = {} if wanted is None else rows_by_leader(wanted, self._refused)
        if wanted is None or not by_leader:
            return Collected([], [])
        try:
            answers = self._connection.run(
                lambda deadline: self._ask(wanted, by_leader, deadline), self._deadline_seconds
            )
        except SourceError as error:
            return Collected([], [Failure(SOURCE, "", str(error))], complete=False)
        failures, reached = [], []
        left: dict[int, TailContent] = {}
        for (broker, asked), answer in zip(by_leader.items(), answers, strict=True):
            if isinstance(answer, SourceError):
                failures.append(Failure(SOURCE, f"broker {broker}", str(answer)))
                continue
            reached.append(f"broker {broker}")
            failures += self._take(wanted, asked, answer, left, now_ms)
        return Collected([], failures, reached, complete=not failures, tail_answers=_answered(wanted, left))

    async def _ask(
        self, wanted: TailQuery, by_leader: Mapping[int, Asked], deadline: Deadline
    ) -> list[Fetched | SourceError]:
        if not by_leader.keys() <= set(self._connection.nodes()):
            await refresh_from_any(self._connection, deadline)
        return await self._connection.gather(
            [self._ask_broker(broker, wanted, asked, deadline) for broker, asked in by_leader.items()]
        )

    async def _ask_broker(self, broker: int, wanted: TailQuery, asked: Asked, deadline: Deadline) -> Fetched:
        positions: dict[str, dict[int, int]] = defaultdict(dict)
        for (topic, partition), row in asked.items():
            positions[topic][partition] = int(wanted.offset[row])
        request = wire.fetch_topics_request(
            positions,
            most_bytes=len(asked) * _PARTITION_BYTES,
            partition_bytes=_PARTITION_BYTES,
            committed_only=True,
        )
        answer = decode_fetch((await self._connection.ask(broker, request, deadline)).body)
        if answer.error:
            raise SourceError(wire.error_words(answer.error))
        return answer

    def _take(
        self, wanted: TailQuery, asked: Asked, answer: Fetched, left: dict[int, TailContent], now_ms: int
    ) -> list[Failure]:
        """What one broker told of each row; a partition that cannot be read costs itself."""
        errors: dict[int, list[str]] = defaultdict(list)
        for found in answer.partitions:
            row = asked.get((found.topic, found.partition))
            if row is None:
                continue
            if found.error == _TOPIC_REFUSED:
                self._refused[found.topic] = now_ms
            elif found.error == _OUT_OF_RANGE:  # deleted or cut off since
                left[row] = TailContent.UNKNOWN
            elif found.error:
                errors[found.error].append(f"{found.topic}/{found.partition}")
            else:
                left[row] = what_is_left(answer.body, found, int(wanted.end[row]))
        return [
            Failure(SOURCE, "partitions", f"what is left of {wire.some(names, 'partition')}: {wire.error_words(code)}")
            for code, names in errors.items()
        ]


def rows_by_leader(wanted: TailQuery, refused: Mapping[str, int]) -> dict[int, Asked]:
    """What to ask of each broker; rows without a leader wait for one, those of refused topics for their hour."""
    by_leader: dict[int, Asked] = defaultdict(dict)
    for row in np.flatnonzero(wanted.leader >= 0).tolist():
        topic = wanted.topic.values[wanted.topic.codes[row]]
        if topic not in refused:
            by_leader[int(wanted.leader[row])][topic, int(wanted.partition[row])] = row
    return dict(by_leader)


def _answered(wanted: TailQuery, left: Mapping[int, TailContent]) -> TailAnswers | None:
    if not left:
        return None
    rows: npt.NDArray[np.intp] = np.fromiter(left, np.intp, len(left))
    told = np.fromiter(left.values(), np.int8, len(left))
    return TailAnswers(wanted.key[rows], wanted.offset[rows], wanted.end[rows], told)
