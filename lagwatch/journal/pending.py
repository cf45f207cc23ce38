"""Queues polls to be written: one at a time on a healthy disk, up to a memory limit on a full one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from lagwatch.journal.rows import EncodedBatch, checkpoint_crc


@dataclass(frozen=True, slots=True)
class PendingPoll:
    """A numbered and encoded poll."""

    poll: int
    batches: Sequence[EncodedBatch]

    @property
    def rows(self) -> int:
        """The number of rows in its batches."""
        return sum(batch.row_count for batch in self.batches)

    @property
    def bytes(self) -> int:
        """The size of its payloads in bytes."""
        return sum(len(batch.payload) for batch in self.batches)


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """An encoded checkpoint."""

    poll: int
    at_ms: int
    body: bytes

    @property
    def row(self) -> tuple[int, int, int, bytes]:
        """The values of INSERT."""
        return self.poll, self.at_ms, checkpoint_crc(self.poll, self.at_ms, self.body), self.body


class PendingPolls:
    """A queue with a limit in bytes; the newest poll is always kept."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._polls: deque[PendingPoll] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._polls)

    def add(self, poll: PendingPoll) -> None:
        """Append a poll."""
        self._polls.append(poll)
        self._bytes += poll.bytes

    def shed(self) -> int:
        """Drop the oldest polls over the limit. Returns the number of rows lost."""
        rows = 0
        while self._bytes > self._limit_bytes and len(self._polls) > 1:
            rows += self.remove().rows
        return rows

    def first(self, limit_bytes: int) -> list[PendingPoll]:
        """The oldest polls of up to `limit_bytes`, at least one if there is one."""
        polls: list[PendingPoll] = []
        size = 0
        for poll in self._polls:
            size += poll.bytes
            if polls and size > limit_bytes:
                break
            polls.append(poll)
        return polls

    def remove(self) -> PendingPoll:
        """Remove and return the oldest poll."""
        poll = self._polls.popleft()
        self._bytes -= poll.bytes
        return poll

    def remove_through(self, number: int) -> None:
        """Remove every poll up to and including this number."""
        while self._polls and self._polls[0].poll <= number:
            self.remove()
