"""Kills the agent at random times while it writes, and checks its journal afterwards."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from random import Random

from lagwatch.journal import JournalReader
from tests.harness.agents import RunningAgent, write_config
from tests.harness.waiting import wait_until

_COMMITTED = re.compile(r"poll job=(?P<job>\S+) poll=(?P<poll>\d+) rows=(?P<rows>\d+)")


def kill_agent_while_it_writes(folder: Path, bootstrap: str, *, kills: int, random: Random) -> None:
    """Start and `kill -9` the agent `kills` times; after each kill no committed poll may be missing or duplicated.

    The agent logs a poll after its transaction: every poll in the log must be in the journal, with as many rows.
    """
    config = write_config(folder, bootstrap)
    checked = 0
    for kill in range(kills):
        agent = RunningAgent(config)
        try:
            _wait_for_a_poll(agent)
            time.sleep(random.uniform(0, 0.7))  # the random time of the kill
        finally:
            agent.kill()
        checked = _check(folder / "journal.db", _committed(agent), checked, f"kill {kill}")
    _check(folder / "journal.db", _committed(agent), 0, "in the end")
    assert not list(folder.glob("*.unreadable*")), "the journal was set aside"


def _wait_for_a_poll(agent: RunningAgent) -> None:
    done = len(_committed(agent))
    wait_until(lambda: len(_committed(agent)) > done, 30, lambda: f"no poll: {agent.messages()[-5:]}")


def _committed(agent: RunningAgent) -> dict[int, int]:
    found = _COMMITTED.finditer(agent.log_file.read_text())
    return {int(match["poll"]): int(match["rows"]) for match in found}


def _check(journal: Path, committed: dict[int, int], after: int, when: str) -> int:
    """Compare the journal's polls after a number with those the agent logged as committed; returns the newest."""
    polls = list(JournalReader(journal).tail(after))
    numbers = Counter(poll.poll for poll in polls)
    assert max(numbers.values()) == 1, f"{when}: a poll is there twice"
    rows = {poll.poll: sum(len(batch) for batch in poll.batches) for poll in polls}
    wrong = {
        poll: (count, rows.get(poll)) for poll, count in committed.items() if poll > after and rows.get(poll) != count
    }
    assert not wrong, f"{when}: committed polls missing or incomplete: {wrong}"
    return max(numbers)
