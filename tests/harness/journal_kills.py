"""Kills a journal writer repeatedly and checks after each kill that no acknowledged poll is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lagwatch.journal import Journal
from tests.harness.journal_batches import poll_batches, same_batches
from tests.harness.journal_writer import CHECKER, rows_of

ROOT = Path(__file__).parents[2]


@dataclass
class KillTally:
    """The results of a run."""

    kills: int = 0
    polls: int = 0
    unacknowledged: int = 0
    deleted_by_retention: int = 0


def kill_again_and_again(path: Path, kills: int, seed: int) -> KillTally:
    """Raise AssertionError at the first poll that is lost, duplicated or wrong."""
    Journal(path).close()
    with Journal(path) as journal:
        journal.register_sink(CHECKER)
    tally = KillTally()
    chance = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.harness.journal_writer", str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as writer:
        try:
            for _ in range(kills):
                last = _run_one_writer(writer, chance.uniform(0, 0.15))
                _check(path, last, tally)
                tally.kills += 1
        finally:
            assert writer.stdin is not None
            writer.stdin.close()
    return tally


def _run_one_writer(writer: subprocess.Popen[str], seconds: float) -> int:
    """Start a writer, kill it after `seconds`, and return the last poll it acknowledged (0 for none)."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("live\n")
    last, pid = 0, None
    for line in writer.stdout:
        word, _, number = line.strip().partition(" ")
        if word == "pid":
            pid = int(number)
            time.sleep(seconds)  # the time of the kill is under test
            os.kill(pid, signal.SIGKILL)
        elif word == "ack":
            last = int(number)
        elif word == "dead":
            break
    assert pid is not None
    return last


def _check(path: Path, last_acknowledged: int, tally: KillTally) -> None:
    with Journal(path) as journal:
        assert journal.fault is None
        before = journal.cursor(CHECKER).live
        polls = list(journal.tail(before))
        found = [poll.poll for poll in polls]
        acknowledged = max(last_acknowledged, before)
        assert found in (
            list(range(before + 1, acknowledged + 1)),
            list(range(before + 1, acknowledged + 2)),
        ), f"acknowledged up to {acknowledged}, found {found}"
        for poll in polls:
            expected = poll_batches(poll.poll, rows=rows_of(poll.poll))
            assert same_batches(poll.batches, expected), f"poll {poll.poll} is not what was written"
        if polls:
            journal.advance_live(CHECKER, found[-1])
            tally.unacknowledged += found[-1] - acknowledged
        stats = journal.stats()
        assert stats.dropped == {}
        tally.polls += len(polls)
        tally.deleted_by_retention = stats.newest_poll - stats.polls
    assert not list(path.parent.glob("*.unreadable-*"))
