"""Commits made inside transactions: they count once the transaction is committed, and never if it is aborted.

Kafka could hold them back itself (isolation read_committed), but it then holds back all that comes after the first open
transaction: one hung producer would silence every group whose commits share its partition of the offsets topic. So
everything is fetched, and what belongs to an open transaction waits here for its marker.
"""

from __future__ import annotations

import numpy as np

from collectors.kafka_decode.offsets_topic import CommitRows, Keys
from collectors.kafka_decode.reader import CodeColumn, IntColumn
from collectors.kafka_decode.record_batches import Batches
from collectors.kafka_decode.record_columns import COMMIT, NO_MARKER, read_markers

_COUNTS, _DROPPED = -1, -2
MOST_HELD = 200_000

Place = tuple[int, int]  # partition of the offsets topic, producer


class OpenTransactions:
    """Rows of transactions whose end has not been seen, at most `most` of them in all."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._held: dict[Place, list[CommitRows]] = {}
        self._count = 0
        self.given_up = 0  # rows dropped because there were too many

    def __len__(self) -> int:
        return self._count

    def settle(self, data: bytes, batches: Batches, rows: CommitRows, batch: CodeColumn) -> list[CommitRows]:
        """The rows that count now: those outside transactions and those whose transaction has just been committed.

        `batch` tells the batch of each row. Batches of one partition come in their order, over all calls.
        """
        held = np.flatnonzero(batches.is_transactional | batches.is_control)
        if not len(held):
            return [rows]
        markers = read_markers(data, batches)
        counted: list[CommitRows] = []
        owner = np.full(len(batches), _COUNTS, np.int64)
        open_now: dict[Place, list[int]] = {}
        columns = (column[held].tolist() for column in (batches.partition, batches.producer, markers))
        for number, partition, producer, marker in zip(held.tolist(), *columns, strict=True):
            place = (partition, producer)
            if marker == NO_MARKER:
                open_now.setdefault(place, []).append(number)
                continue
            owner[open_now.pop(place, [])] = _COUNTS if marker == COMMIT else _DROPPED
            earlier = self._take(place)
            counted += earlier if marker == COMMIT else []
        for position, numbers in enumerate(open_now.values()):
            owner[numbers] = position
        of_row = owner[batch]
        self._hold(list(open_now), rows, of_row)
        return [*counted, rows.at(of_row == _COUNTS)]

    def forget(self, partition: int) -> None:
        """Drop what waits in a partition that is read from elsewhere now: its markers may have been missed."""
        for place in [place for place in self._held if place[0] == partition]:
            self._take(place)

    def renumber(self, before: Keys, after: Keys) -> None:
        """Give what waits the numbers of other keys."""
        self._held = {place: [before.renumber(rows, after) for rows in parts] for place, parts in self._held.items()}

    def _hold(self, places: list[Place], rows: CommitRows, of_row: IntColumn) -> None:
        waiting = np.flatnonzero(of_row >= 0)
        waiting = waiting[np.argsort(of_row[waiting], kind="stable")]
        cuts = np.flatnonzero(np.diff(of_row[waiting])) + 1
        for part in np.split(waiting, cuts):
            if len(part):
                self._held.setdefault(places[of_row[part[0]]], []).append(rows.at(part))
                self._count += len(part)
        while self._count > self._most:
            before = self._count
            self._take(next(iter(self._held)))  # the one that has waited longest
            self.given_up += before - self._count

    def _take(self, place: Place) -> list[CommitRows]:
        parts = self._held.pop(place, [])
        self._count -= sum(map(len, parts))
        return parts
