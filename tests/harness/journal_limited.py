"""A journal in its own process with a file size limit: `python -m tests.harness.journal_limited PATH`.

A file size limit replaces a full disk where mounting is not permitted, and fails the write itself, like a quota.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from lagwatch.journal import Journal
from tests.harness.journal_batches import numbers, poll_batches, same_batches


def main() -> None:
    """Reach the limit, continue in memory, lift the limit, and check that nothing is missing."""
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
