"""Holds back offset commits made inside transactions until the transaction is committed; drops them if it is aborted.

Kafka's isolation level read_committed would hold back everything after the first open transaction: one hung producer
would hide the commits of every group in its partition of the offsets topic. So everything is fetched, and rows of an
open transaction wait here for its marker.
"""

from __future__ import annotations

import numpy as np

from collectors.kafka_decode.offsets_topic import CommitRows, KeyTable
from collectors.kafka_decode.reader import CodeColumn, IntColumn
from collectors.kafka_decode.record_batches import BatchHeaders
from collectors.kafka_decode.record_columns import COMMIT, NO_MARKER, read_markers

_COMMITTED, _ABORTED = -1, -2
MAX_HELD_ROWS = 200_000

ProducerKey = tuple[int, int]  # partition of the offsets topic, producer


class OpenTransactions:
    """Rows of transactions without a marker so far, at most `max_rows` in all."""

    def __init__(self, max_rows: int = MAX_HELD_ROWS) -> None:
        self._max_rows = max_rows
        self._held: dict[ProducerKey, list[CommitRows]] = {}
        self._count = 0
        self.dropped = 0  # rows dropped above `max_rows`

    def __len__(self) -> int:
        return self._count

    def resolve(self, data: bytes, batches: BatchHeaders, rows: CommitRows, batch: CodeColumn) -> list[CommitRows]:
        """The rows that are committed now: those outside transactions, and those whose COMMIT marker is in these batches.

        `batch` is the batch number of each row. Batches of one partition must arrive in order, across calls.
        """
        held = np.flatnonzero(batches.is_transactional | batches.is_control)
        if not len(held):
            return [rows]
        markers = read_markers(data, batches)
        committed: list[CommitRows] = []
        owner = np.full(len(batches), _COMMITTED, np.int64)
        open_now: dict[ProducerKey, list[int]] = {}
        columns = (column[held].tolist() for column in (batches.partition, batches.producer, markers))
        for number, partition, producer, marker in zip(held.tolist(), *columns, strict=True):
            transaction = (partition, producer)
            if marker == NO_MARKER:
                open_now.setdefault(transaction, []).append(number)
                continue
            owner[open_now.pop(transaction, [])] = _COMMITTED if marker == COMMIT else _ABORTED
            earlier = self._take(transaction)
            committed += earlier if marker == COMMIT else []
        for position, numbers in enumerate(open_now.values()):
            owner[numbers] = position
        of_row = owner[batch]
        self._hold(list(open_now), rows, of_row)
        return [*committed, rows.at(of_row == _COMMITTED)]

    def discard(self, partition: int) -> None:
        """Drop the held rows of a partition whose position was reset: its markers may have been missed."""
        for place in [place for place in self._held if place[0] == partition]:
            self._take(place)

    def renumber(self, before: KeyTable, after: KeyTable) -> None:
        """Convert the held rows to the numbers of another key table."""
        self._held = {place: [before.renumber(rows, after) for rows in parts] for place, parts in self._held.items()}

    def _hold(self, places: list[ProducerKey], rows: CommitRows, of_row: IntColumn) -> None:
        waiting = np.flatnonzero(of_row >= 0)
        waiting = waiting[np.argsort(of_row[waiting], kind="stable")]
        cuts = np.flatnonzero(np.diff(of_row[waiting])) + 1
        for part in np.split(waiting, cuts):
            if len(part):
                self._held.setdefault(places[of_row[part[0]]], []).append(rows.at(part))
                self._count += len(part)
        while self._count > self._max_rows:
            before = self._count
            self._take(next(iter(self._held)))  # the oldest transaction
            self.dropped += before - self._count

    def _take(self, place: ProducerKey) -> list[CommitRows]:
        parts = self._held.pop(place, [])
        self._count -= sum(map(len, parts))
        return parts
