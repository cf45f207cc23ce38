"""What leaves the journal: polls, checkpoints and figures about the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lagwatch.batch import Batch

CHECKPOINTS_KEPT = 2  # if the newest is damaged, the one before it is used


@dataclass(frozen=True, slots=True)
class Poll:
    """The batches of one append that are still kept. `poll` numbers only ever grow; `at_ms` may step back."""

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
    """What one table takes: batches, rows in them, bytes of their payloads."""

    batches: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CursorStats:
    """Where a sink stands, and how many kept polls it has still to ship, backfill included."""

    live: int
    backfill: tuple[tuple[int, int], ...]
    lag_polls: int


@dataclass(frozen=True, slots=True)
class JournalStats:
    """The journal in figures. `bytes` is used pages and write-ahead log; `dropped` is rows lost, by reason."""

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
        """Rows lost for any reason."""
        return sum(self.dropped.values())
