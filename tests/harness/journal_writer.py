"""A journal writer to be killed: `python -m tests.harness.journal_writer PATH`.

Each line on stdin forks a writer, so that a thousand writers import pyarrow only once. A writer prints `pid N`, then
`ack N` after each append, until it is killed; then the parent prints `dead`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from lagwatch.batch import encode_rows
from lagwatch.journal import Journal
from tests.harness.journal_batches import poll_batches

CHECKER = "checker"
FAR_FUTURE_MS = 4_000_000_000_000


def say(line: str) -> None:
    """Write unbuffered: nothing may wait in a buffer when the kill comes."""
    os.write(1, f"{line}\n".encode())


def rows_of(number: int) -> int:
    """Small and large polls, so that kills hit both."""
    return (20, 300, 5000)[number % 3]


def live(path: Path) -> None:
    """Append as fast as possible, with checkpoints and trimming, until killed."""
    journal = Journal(path, history_seconds=0)
    while True:
        number = journal.newest_poll + 1
        say(f"ack {journal.append(poll_batches(number, rows=rows_of(number)))}")
        if number % 5 == 0:
            journal.save_checkpoint({"windows": b"state" * 5000}, number)
        if number % 7 == 0:
            journal.trim(FAR_FUTURE_MS)  # polls the checker has read are old; the others must stay


def main() -> None:
    """Start a writer for each line until stdin ends."""
    path = Path(sys.argv[1])
    for batch in poll_batches(0):
        encode_rows(batch.rows)  # pyarrow imports more at its first use: once here, not in each fork
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                live(path)
            finally:
                time.sleep(0.1)
                os._exit(1)
        say(f"pid {pid}")
        os.waitpid(pid, 0)
        say("dead")


if __name__ == "__main__":
    main()
