"""What the journal returns: polls, checkpoints and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lagwatch.batch import Batch

CHECKPOINTS_KEPT = 2  # if the newest is damaged, the one before it is used


@dataclass(frozen=True, slots=True)
class Poll:
    """The batches of one append that are still in the journal. `poll` always increases; `at_ms` may step back.

    Of a poll older than the history only the batches are left that are the newest of their table, cluster and source.
    """

    poll: int
    at_ms: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State saved beside the polls: it covers every poll up to and including `poll`."""

    poll: int
    at_ms: int
    parts: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class TableStats:
    """The batches of one table, their rows, and the bytes of their payloads."""

    batches: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CursorStats:
    """The position of a sink, and the number of polls it has yet to ship, backfill included."""

    live: int
    backfill: tuple[tuple[int, int], ...]
    lag_polls: int


@dataclass(frozen=True, slots=True)
class JournalStats:
    """Statistics of the journal. `bytes` is used pages plus write-ahead log; `dropped` is lost rows by reason.

    `oldest_ms` is the time of the oldest poll of the history; newest batches, which are kept beyond it, do not count.
    """

    path: Path
    polls: int
    rows: int
    bytes: int
    oldest_ms: int | None
    newest_ms: int | None
    newest_poll: int
    tables: Mapping[str, TableStats]
    dropped: Mapping[str, int]
    cursors: Mapping[str, CursorStats]
    checkpoint_poll: int | None
    checkpoint_age_ms: int | None
    fault: str | None = None
    fault_since_ms: int | None = None
    pending_polls: int = 0

    @property
    def dropped_rows(self) -> int:
        """The number of lost rows."""
        return sum(self.dropped.values())
