"""The journal: one SQLite file holding every batch the agent observes, read by cursors like consumers over a log.

Batches enter by `Journal.append`, one transaction a poll; sinks read them by poll number, each at its own pace;
`JournalReader` reads the same file from another process.
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
