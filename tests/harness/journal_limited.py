"""A journal whose file may not grow, in a process of its own: `python -m tests.harness.journal_limited PATH`.

A limit on file size stands in for a full disk where nothing can be mounted, and fails the write itself, as a quota does.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from lagwatch.journal import Journal
from tests.harness.journal_batches import numbers, poll_batches, same_batches


def main() -> None:
    """Meet the limit, go on in memory, have it lifted, and check that all is there."""
    with Journal(Path(sys.argv[1])) as journal:
        journal.append(poll_batches(1))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        while journal.fault is None:
            journal.append(poll_batches(journal.newest_poll + 1, rows=20_000))
        for _ in range(5):
            journal.append(poll_batches(journal.newest_poll + 1, rows=20_000))
        assert journal.stats().pending_polls == 6, journal.stats()
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        newest = journal.append(poll_batches(journal.newest_poll + 1))
        assert journal.fault is None, journal.fault
        polls = journal.read(0)
        assert numbers(polls) == list(range(1, newest + 1))
        for poll in polls:
            rows = 20 if poll.poll in (1, newest) else 20_000
            assert same_batches(poll.batches, poll_batches(poll.poll, rows=rows)), poll.poll
    print("all there")


if __name__ == "__main__":
    main()
