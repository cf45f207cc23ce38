"""Runs the agent in its own process, like users do, and reads its journal and log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lagwatch.batch import Batch
from lagwatch.errors import JournalError
from lagwatch.journal import JournalReader, Poll
from tests.harness.waiting import wait_until

INTERVAL_SECONDS = 1.0
DEADLINE_SECONDS = 0.8

_CONFIG = """
agent: {{log_level: debug}}
journal: {{path: {journal}, checkpoint_every: 10s}}
clusters:
  - name: east
    bootstrap: {bootstrap}
    deadline: {deadline}ms
    intervals: {{kafka: {interval}s, quorum: 1s, configs: 2s, logdirs: 2s}}
{extra}
"""


def write_config(folder: Path, bootstrap: str, *, interval: int = 1, deadline_ms: int = 800, extra: str = "") -> Path:
    """A configuration that polls every second."""
    path = folder / "lagwatch.yml"
    journal = folder / "journal.db"
    path.write_text(
        _CONFIG.format(journal=journal, bootstrap=bootstrap, interval=interval, deadline=deadline_ms, extra=extra)
    )
    return path


class RunningAgent:
    """An agent process; its journal is read like commands read it."""

    def __init__(self, config: Path, env: Mapping[str, str] | None = None) -> None:
        self.log_file = config.with_suffix(".log")
        self._journal = config.parent / "journal.db"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lagwatch.cli", "run", str(config)],
                stderr=log,
                env={**os.environ, **(env or {})},
            )

    @property
    def reader(self) -> JournalReader:
        return JournalReader(self._journal)

    def polls(self, table: str = "consumer_lag", after: int = 0) -> list[Poll]:
        """The polls with this table, oldest first."""
        return [poll for poll in self._all(after) if any(batch.table == table for batch in poll.batches)]

    def newest(self) -> int:
        """The number of the newest poll; 0 without a journal."""
        try:
            return self.reader.stats().newest_poll
        except JournalError:  # the file is being created
            return 0

    def log(self) -> list[dict[str, Any]]:
        """Its log lines so far."""
        lines = self.log_file.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def messages(self) -> list[str]:
        return [line["message"] for line in self.log()]

    def wait_for(
        self, table: str, found: Callable[[list[dict[str, Any]]], bool], seconds: float = 30, since: int | None = None
    ) -> Poll:
        """The first poll from now on, or after poll `since`, whose rows of that table satisfy `found`."""
        after = [self.newest() if since is None else since]
        hits: list[Poll] = []

        def found_it() -> bool:
            for poll in self.polls(table, after[0]):
                after[0] = poll.poll
                if found([row for batch in poll.batches if batch.table == table for row in batch.rows.to_pylist()]):
                    hits.append(poll)
                    return True
            return False

        wait_until(found_it, seconds, lambda: f"no such {table} rows; log: {self.messages()[-10:]}")
        return hits[0]

    def stop(self, seconds: float = 10) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _all(self, after: int) -> Iterator[Poll]:
        try:
            yield from self.reader.tail(after)
        except JournalError:
            if any(message.startswith("agent started") for message in self.messages()):
                raise  # otherwise the file is still being created


@contextmanager
def running_agent(config: Path, env: Mapping[str, str] | None = None) -> Iterator[RunningAgent]:
    """An agent for the duration of a `with` block."""
    agent = RunningAgent(config, env)
    try:
        yield agent
    finally:
        agent.kill()


def batch_of(poll: Poll, table: str) -> Batch:
    """The only batch of this table in a poll."""
    (batch,) = [batch for batch in poll.batches if batch.table == table]
    return batch


def rows_of(poll: Poll, table: str) -> list[dict[str, Any]]:
    """The rows of a table in a poll."""
    return [row for batch in poll.batches if batch.table == table for row in batch.rows.to_pylist()]
