"""What an agent last saw of a cluster, from its journal: read-only, while the agent writes or when none runs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from lagwatch.cli.seen import Seen
from lagwatch.clock import Clock
from lagwatch.journal import JournalReader, reading
from lagwatch.snapshot.from_journal import view_journal


def see_journal(path: Path, cluster: str | None, tables: Collection[str], clock: Clock | None = None) -> Seen:
    """The newest of these tables, with the sources. Raises LagwatchError when there is nothing to read."""
    view = view_journal(path, cluster, tables, clock)
    batches = list(view.snapshot.batches.values())
    return Seen(
        view.cluster, view.now_ms, batches, from_journal=True, followed_seconds=float("inf"), overdue=view.overdue
    )


def newest_poll(reader: JournalReader) -> int:
    """The number of the newest poll; 0 when there is none."""
    with reader.connection() as connection:
        return reading.newest_poll(connection)
