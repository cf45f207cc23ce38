"""One run over the offsets topic: where to begin, and all that is new, from every broker side by side.

What is fetched is kept as bytes until the waiting is over; only the heads of batches are read on the way, to know where
to ask on. What one broker or partition cannot answer becomes a Failure and costs only itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.kafka_client import requests as wire
from collectors.kafka_client.protocol import Connection, Deadline
from collectors.kafka_decode.fetch import decode_fetch
from collectors.kafka_decode.offsets import decode_offsets
from collectors.kafka_decode.record_batches import walk_batches
from lagwatch.errors import SourceError
from lagwatch.protocols import Failure
from lagwatch.text import duration_text

SOURCE = "kafka_commits"
OFFSETS_TOPIC = "__consumer_offsets"
OUT_OF_RANGE, TOPIC_REFUSED = 1, 29
_PARTITION_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How far a start looks back, in time and in records of each partition, and how many bytes a run and an answer have."""

    look_back_seconds: float = 600.0
    look_back_records: int = 50_000
    run_bytes: int = 32 * 1024 * 1024
    answer_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """One answer's bytes, where batches begin in them, and how many there are of each partition, one after the other."""

    data: bytes
    places: list[int]
    counts: dict[int, int]


@dataclass(slots=True)
class CommitsRun:
    """What one run hears. `positions` are the offsets to read next; a partition without one begins in the past."""

    connection: Connection
    leaders: Mapping[int, int]  # partition: broker
    positions: dict[int, int]
    limits: FetchLimits
    now_ms: int
    topic_id: object = None
    failures: list[Failure] = field(default_factory=list)
    fetched: list[FetchedBatches] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    unreachable: dict[int, str] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)  # partitions whose position is no longer there
    damaged: list[str] = field(default_factory=list)
    refused: bool = False
    _errors: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))

    async def ask(self, deadline: Deadline) -> None:
        """Everything that is new, as far as bytes and time go; then `failures` tells what was not heard."""
        led: dict[int, list[int]] = defaultdict(list)
        for partition, leader in self.leaders.items():
            if leader >= 0:
                led[leader].append(partition)
        share = self.limits.run_bytes // max(len(led), 1)
        until = Deadline.after(deadline.left() * 0.7)  # no new request after it: decoding takes time too
        works = [self._follow(broker, partitions, share, until, deadline) for broker, partitions in led.items()]
        for broker, outcome in zip(led, await self.connection.gather(works), strict=True):
            if isinstance(outcome, SourceError):
                self.unreachable[broker] = str(outcome)
        self._tell()

    def behind(self) -> dict[int, int]:
        """Records still to be read in each partition that has some."""
        behind = {partition: end - self.positions.get(partition, end) for partition, end in self.ends.items()}
        return {partition: records for partition, records in behind.items() if records > 0}

    async def _follow(
        self, broker: int, partitions: Sequence[int], share: int, until: Deadline, deadline: Deadline
    ) -> None:
        """Read one broker's partitions to their ends, in answers of bounded size."""
        await self._begin(broker, [p for p in partitions if p not in self.positions], deadline)
        waiting = {p: self.positions[p] for p in partitions if p in self.positions}
        while waiting and share > 0 and until.left() > 0:
            request = wire.fetch_request(
                OFFSETS_TOPIC,
                waiting,
                most_bytes=min(share, self.limits.answer_bytes),
                partition_bytes=min(share, _PARTITION_BYTES),
            )
            body = (await self.connection.ask(broker, request, deadline)).body
            share -= len(body)
            moved = self._take(body)
            if not moved:
                return
            behind = [p for p in waiting if self.positions.get(p, 0) < self.ends.get(p, 0)]
            # Those that got something go to the end, since the broker fills an answer from the front.
            waiting = {p: self.positions[p] for p in sorted(behind, key=moved.__contains__) if p in self.positions}

    async def _begin(self, broker: int, partitions: Sequence[int], deadline: Deadline) -> None:
        """Find where to begin: at the first record of the look-back, but not too many records before the end."""
        if not partitions:
            return
        since = max(0, self.now_ms - int(self.limits.look_back_seconds * 1000))
        starts, ends = [
            await self._list_offsets(broker, partitions, moment, deadline) for moment in (since, wire.LATEST)
        ]
        for partition in starts.keys() & ends.keys():
            end = ends[partition]
            start = end if starts[partition] < 0 else starts[partition]  # below zero: nothing so young is there
            self.positions[partition] = max(start, end - self.limits.look_back_records, 0)

    async def _list_offsets(
        self, broker: int, partitions: Sequence[int], moment: int, deadline: Deadline
    ) -> dict[int, int]:
        timeout_ms = int(deadline.left() * 1000)
        request = wire.list_offsets_request({OFFSETS_TOPIC: partitions}, moment, timeout_ms=timeout_ms)
        found = decode_offsets((await self.connection.ask(broker, request, deadline)).body)
        offsets: dict[int, int] = {}
        rows: Any = zip(found.partition.tolist(), found.error.tolist(), found.offset.tolist(), strict=True)
        for partition, error, offset in rows:
            if error:
                self._errors["where to begin in", error].append(str(partition))
            else:
                offsets[partition] = offset
        return offsets

    def _take(self, body: bytes) -> set[int]:
        """Keep an answer; the partitions in which there is something more to ask now."""
        answer = decode_fetch(body)
        if answer.error:
            raise SourceError(wire.error_words(answer.error))
        moved: set[int] = set()
        fetched = FetchedBatches(body, [], {})
        for part in answer.partitions:
            if part.error:
                self._refuse(part.partition, part.error)
                continue
            self.ends[part.partition] = part.end_offset
            walked = walk_batches(body, part.start, part.end, part.partition)
            self.damaged += walked.damaged
            fetched.places.extend(walked.places)
            fetched.counts[part.partition] = len(walked.places)
            after = part.end_offset if walked.stuck else walked.next_offset
            if after is not None and after > self.positions[part.partition]:
                self.positions[part.partition] = after
                moved.add(part.partition)
        if fetched.places:
            self.fetched.append(fetched)
        return moved

    def _refuse(self, partition: int, error: int) -> None:
        self.ends.pop(partition, None)  # not asked again in this run
        if error == TOPIC_REFUSED:
            self.refused = True
        elif error == OUT_OF_RANGE:
            self.lost.add(partition)
            del self.positions[partition]
        else:
            self._errors["records of", error].append(str(partition))

    def _tell(self) -> None:
        leaderless = [str(partition) for partition, leader in self.leaders.items() if leader < 0]
        told = [f"no leader for {wire.some(leaderless, 'partition')} of {OFFSETS_TOPIC}"] if leaderless else []
        told += [
            f"{what} {wire.some(partitions, 'partition')} of {OFFSETS_TOPIC}: {wire.error_words(code)}"
            for (what, code), partitions in self._errors.items()
        ]
        if self.lost:
            told.append(
                f"what comes next in {wire.some([str(p) for p in sorted(self.lost)], 'partition')} of {OFFSETS_TOPIC}"
                f" is no longer there (deleted, cut off, or the topic was made anew):"
                f" reading goes on {duration_text(self.limits.look_back_seconds)} back"
            )
        self.failures += [Failure(SOURCE, "partitions", reason) for reason in told]
        self.failures += [Failure(SOURCE, f"broker {broker}", reason) for broker, reason in self.unreachable.items()]
