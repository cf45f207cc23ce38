"""The journal: one SQLite file with every batch of the agent, which sinks read by cursor like consumers read a log.

`Journal.append` writes one poll in one transaction. Each sink reads by poll number at its own pace. `JournalReader` reads
the same file from another process.
"""

from lagwatch.journal.cursors import Cursor
from lagwatch.journal.reader import JournalReader
from lagwatch.journal.records import CHECKPOINTS_KEPT, Checkpoint, CursorStats, JournalStats, Poll, TableStats
from lagwatch.journal.writer import Journal

__all__ = [
    "CHECKPOINTS_KEPT",
    "Checkpoint",
    "Cursor",
    "CursorStats",
    "Journal",
    "JournalReader",
    "JournalStats",
    "Poll",
    "TableStats",
]
