"""When were records written? Asks brokers for the first record at or after a time, a time of its own for each partition.

The pipeline says what it wants to know; every broker is asked once, for all partitions it leads. On connections of its
own: a broker may have to look the time up in old segments or in remote storage, and the polls must not wait behind that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import refresh_from_any
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.offsets import Offsets, decode_offsets
from lagwatch.columns import find, partition_keys
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.queries import TimestampAnswers, TimestampQuery

SOURCE = "kafka_timestamps"
Rows = npt.NDArray[np.intp]


class KafkaTimes:
    """Brings answers to questions by time; no batches. When nothing is wanted it does not even connect."""

    source = SOURCE

    def __init__(
        self,
        connection: Connection,
        *,
        wanted: Callable[[], TimestampQuery | None] = lambda: None,
        most: int = 2000,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._most = most
        self._deadline_seconds = deadline_seconds

    def collect(self, now_ms: int) -> Collected:  # noqa: ARG002
        """Ask once, the first `most` of what is wanted; blocks at most the deadline and a second."""
        wanted = self._wanted()
        if wanted is None or not len(wanted):
            return Collected([], [])
        by_leader = _by_leader(wanted, self._most)
        try:
            answers = self._connection.run(
                lambda deadline: self._ask(wanted, by_leader, deadline), self._deadline_seconds
            )
        except SourceError as error:
            return Collected([], [Failure(SOURCE, "", str(error))], complete=False)
        failures, reached, found = [], [], []
        for (broker, rows), answer in zip(by_leader.items(), answers, strict=True):
            if isinstance(answer, SourceError):
                failures.append(Failure(SOURCE, f"broker {broker}", str(answer)))
                continue
            reached.append(f"broker {broker}")
            offsets = decode_offsets(answer)
            failures += _refusals(offsets)
            found.append(_matched(wanted, rows, offsets))
        timestamp_answers = _joined(found) if found else None
        return Collected([], failures, reached, complete=not failures, timestamp_answers=timestamp_answers)

    async def _ask(
        self, wanted: TimestampQuery, by_leader: dict[int, Rows], deadline: Deadline
    ) -> list[bytes | SourceError]:
        if not by_leader.keys() <= set(self._connection.nodes()):
            await refresh_from_any(self._connection, deadline)
        return await self._connection.gather(
            [self._ask_broker(broker, wanted, rows, deadline) for broker, rows in by_leader.items()]
        )

    async def _ask_broker(self, broker: int, wanted: TimestampQuery, rows: Rows, deadline: Deadline) -> bytes:
        cuts = np.flatnonzero(np.diff(wanted.topic.codes[rows])) + 1
        partitions = {
            wanted.topic.values[wanted.topic.codes[run[0]]]: wanted.partition[run] for run in np.split(rows, cuts)
        }
        request = wire.list_offsets_request(partitions, wanted.ask_ms[rows], timeout_ms=int(deadline.left() * 1000))
        body: bytes = (await self._connection.ask(broker, request, deadline)).body
        return body


def _by_leader(wanted: TimestampQuery, most: int) -> dict[int, Rows]:
    """The rows to ask of each broker, by topic and partition; those without a leader wait for one."""
    rows = np.flatnonzero(wanted.leader >= 0)[:most]
    rows = rows[np.lexsort((wanted.partition[rows], wanted.topic.codes[rows], wanted.leader[rows]))]
    runs = np.split(rows, np.flatnonzero(np.diff(wanted.leader[rows])) + 1)
    return {int(wanted.leader[run[0]]): run for run in runs if len(run)}


def _matched(wanted: TimestampQuery, rows: Rows, offsets: Offsets) -> TimestampAnswers:
    """The answers beside their questions; a broker may answer in another order, and not for all."""
    code_of = {wanted.topic.values[code]: code for code in np.unique(wanted.topic.codes[rows]).tolist()}
    codes = np.array([code_of.get(topic, -1) for topic in offsets.topics], dtype=np.int64)
    good = offsets.error == 0
    good[good] &= codes[offsets.topic_code[good]] >= 0
    asked = partition_keys(wanted.topic.codes[rows].astype(np.int64), wanted.partition[rows])
    at, found = find(asked, partition_keys(codes[offsets.topic_code[good]], offsets.partition[good]))
    answered = rows[at[found]]
    return TimestampAnswers(
        wanted.key[answered],
        wanted.ask_ms[answered],
        wanted.end[answered],
        offsets.offset[good][found],
        offsets.time[good][found],
    )


def _joined(parts: Sequence[TimestampAnswers]) -> TimestampAnswers:
    columns = ("key", "ask_ms", "end", "offset", "time_ms")
    return TimestampAnswers(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def _refusals(offsets: Offsets) -> list[Failure]:
    refused = defaultdict(list)
    for row in np.flatnonzero(offsets.error):
        refused[int(offsets.error[row])].append(f"{offsets.topics[offsets.topic_code[row]]}/{offsets.partition[row]}")
    return [
        Failure(SOURCE, "partitions", f"times of {wire.some(names, 'partition')}: {wire.error_words(code)}")
        for code, names in refused.items()
    ]
