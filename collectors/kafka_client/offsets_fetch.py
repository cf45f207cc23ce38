"""Fetches everything new in the offsets topic in one run, from all brokers in parallel.

Responses stay undecoded until all have arrived; only batch headers are read on the way, for the next fetch offset. An
error of one broker or partition becomes a Failure and affects only that broker or partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.kafka_client import requests
from collectors.kafka_client.connection_interface import Connection, Deadline
from collectors.kafka_client.error_codes import OFFSET_OUT_OF_RANGE, TOPIC_AUTHORIZATION_FAILED
from collectors.kafka_decode.fetch import decode_fetch
from collectors.kafka_decode.offsets import decode_list_offsets
from collectors.kafka_decode.record_batches import scan_batches
from lagwatch.errors import SourceError
from lagwatch.kafka_names import OFFSETS_TOPIC
from lagwatch.protocols import Failure
from lagwatch.source_names import COMMITS
from lagwatch.text import duration_text

_PARTITION_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The look-back of a start, in time and in records of each partition; the maximum bytes of a run and a response."""

    look_back_seconds: float = 600.0
    look_back_records: int = 50_000
    run_bytes: int = 32 * 1024 * 1024
    response_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """A response's bytes, the positions of its batches, and the number of batches of each partition, in that order."""

    data: bytes
    starts: list[int]
    counts: dict[int, int]


@dataclass(slots=True)
class OffsetsTopicFetch:
    """One run and its results. `positions` are the next offsets to fetch; a partition without one starts by looking back."""

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
    lost: set[int] = field(default_factory=set)  # partitions whose position is out of range
    damaged: list[str] = field(default_factory=list)
    unauthorized: bool = False
    _errors: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))

    async def fetch(self, deadline: Deadline) -> None:
        """Fetch everything new, within the limits of bytes and time; then fill `failures`."""
        led: dict[int, list[int]] = defaultdict(list)
        for partition, leader in self.leaders.items():
            if leader >= 0:
                led[leader].append(partition)
        share = self.limits.run_bytes // max(len(led), 1)
        until = Deadline.after(deadline.remaining() * 0.7)  # no new request after it: decoding takes time, too
        tasks = [self._fetch_from(broker, partitions, share, until, deadline) for broker, partitions in led.items()]
        for broker, outcome in zip(led, await self.connection.gather(tasks), strict=True):
            if isinstance(outcome, SourceError):
                self.unreachable[broker] = str(outcome)
        self._add_failures()

    def behind(self) -> dict[int, int]:
        """The number of records not fetched yet, by partition, without zeros."""
        behind = {partition: end - self.positions.get(partition, end) for partition, end in self.ends.items()}
        return {partition: records for partition, records in behind.items() if records > 0}

    async def _fetch_from(
        self, broker: int, partitions: Sequence[int], share: int, until: Deadline, deadline: Deadline
    ) -> None:
        """Fetch one broker's partitions up to their ends, in responses of bounded size."""
        await self._find_start(broker, [p for p in partitions if p not in self.positions], deadline)
        waiting = {p: self.positions[p] for p in partitions if p in self.positions}
        while waiting and share > 0 and until.remaining() > 0:
            request = requests.fetch_request(
                OFFSETS_TOPIC,
                waiting,
                max_bytes=min(share, self.limits.response_bytes),
                partition_bytes=min(share, _PARTITION_BYTES),
            )
            body = (await self.connection.request(broker, request, deadline)).body
            share -= len(body)
            moved = self._keep(body)
            if not moved:
                return
            behind = [p for p in waiting if self.positions.get(p, 0) < self.ends.get(p, 0)]
            # Partitions that returned records go last, since the broker fills a response in the given order.
            waiting = {p: self.positions[p] for p in sorted(behind, key=moved.__contains__) if p in self.positions}

    async def _find_start(self, broker: int, partitions: Sequence[int], deadline: Deadline) -> None:
        """Set the start: the first record of the look-back, but at most `look_back_records` before the end."""
        if not partitions:
            return
        since = max(0, self.now_ms - int(self.limits.look_back_seconds * 1000))
        starts, ends = [
            await self._list_offsets(broker, partitions, timestamp, deadline) for timestamp in (since, requests.LATEST)
        ]
        for partition in starts.keys() & ends.keys():
            end = ends[partition]
            start = end if starts[partition] < 0 else starts[partition]  # below zero: no record is that recent
            self.positions[partition] = max(start, end - self.limits.look_back_records, 0)

    async def _list_offsets(
        self, broker: int, partitions: Sequence[int], timestamp: int, deadline: Deadline
    ) -> dict[int, int]:
        timeout_ms = int(deadline.remaining() * 1000)
        request = requests.list_offsets_request({OFFSETS_TOPIC: partitions}, timestamp, timeout_ms=timeout_ms)
        found = decode_list_offsets((await self.connection.request(broker, request, deadline)).body)
        offsets: dict[int, int] = {}
        rows: Any = zip(found.partition.tolist(), found.error.tolist(), found.offset.tolist(), strict=True)
        for partition, error, offset in rows:
            if error == TOPIC_AUTHORIZATION_FAILED:
                self.unauthorized = True
            elif error:
                self._errors["start offset of", error].append(str(partition))
            else:
                offsets[partition] = offset
        return offsets

    def _keep(self, body: bytes) -> set[int]:
        """Keep a response; returns the partitions whose position advanced."""
        response = decode_fetch(body)
        if response.error:
            raise SourceError(requests.describe_error_code(response.error))
        moved: set[int] = set()
        fetched = FetchedBatches(body, [], {})
        for part in response.partitions:
            if part.error:
                self._add_error(part.partition, part.error)
                continue
            self.ends[part.partition] = part.end_offset
            scan = scan_batches(body, part.start, part.end, part.partition)
            self.damaged += scan.damaged
            fetched.starts.extend(scan.starts)
            fetched.counts[part.partition] = len(scan.starts)
            after = part.end_offset if scan.stuck else scan.next_offset
            if after is not None and after > self.positions[part.partition]:
                self.positions[part.partition] = after
                moved.add(part.partition)
        if fetched.starts:
            self.fetched.append(fetched)
        return moved

    def _add_error(self, partition: int, error: int) -> None:
        self.ends.pop(partition, None)  # not fetched again in this run
        if error == TOPIC_AUTHORIZATION_FAILED:
            self.unauthorized = True
        elif error == OFFSET_OUT_OF_RANGE:
            self.lost.add(partition)
            del self.positions[partition]
        else:
            self._errors["records of", error].append(str(partition))

    def _add_failures(self) -> None:
        leaderless = [str(partition) for partition, leader in self.leaders.items() if leader < 0]
        reasons = (
            [f"no leader for {requests.list_names(leaderless, 'partition')} of {OFFSETS_TOPIC}"] if leaderless else []
        )
        reasons += [
            f"{what} {requests.list_names(partitions, 'partition')} of {OFFSETS_TOPIC}: {requests.describe_error_code(code)}"
            for (what, code), partitions in self._errors.items()
        ]
        if self.lost:
            reasons.append(
                f"the position in {requests.list_names([str(p) for p in sorted(self.lost)], 'partition')}"
                f" of {OFFSETS_TOPIC} is out of range (records deleted, log truncated or topic recreated):"
                f" reading restarts {duration_text(self.limits.look_back_seconds)} back"
            )
        self.failures += [Failure(COMMITS, "partitions", reason) for reason in reasons]
        self.failures += [Failure(COMMITS, f"broker {broker}", reason) for broker, reason in self.unreachable.items()]
