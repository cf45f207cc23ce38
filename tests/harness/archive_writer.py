"""A minimal agent that writes polls to an archive from a cursor on disk, to be killed meanwhile.

`python -m tests.harness.archive_writer FOLDER POLLS` continues where the last run stopped and prints `done` at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lagwatch.batch import Batch
from tests.harness.archives import NOON_MS, Sinks, events, lag

STEP_MS = 30_000


def poll(number: int) -> list[Batch]:
    """The batches of the poll with this number."""
    at_ms = NOON_MS + number * STEP_MS
    return [lag(at_ms, groups=40, partitions=5), events(at_ms, f"poll {number}", "b")]


def run(folder: Path, polls: int) -> None:
    """Write the polls after the cursor."""
    cursor, new = folder / "cursor", folder / "cursor.new"
    archive = Sinks()(folder / "archive")
    settled = int(cursor.read_text()) if cursor.exists() else 0
    for number in range(settled + 1, polls + 1):
        archive.write(number, poll(number))
        if archive.settled(number) > settled:
            settled = archive.settled(number)
            new.write_text(str(settled))
            new.replace(cursor)
            print(settled, flush=True)
    archive.close()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
    print("done", flush=True)
