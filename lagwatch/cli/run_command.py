"""`lagwatch run`: runs the agent in the foreground."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lagwatch.config import load_settings
from lagwatch.errors import ConfigError
from lagwatch.runtime.agent import Agent
from lagwatch.runtime.job import JobOutcome
from lagwatch.runtime.logs import set_up_logging

log = logging.getLogger(__name__)

EPILOG = "Example: lagwatch run lagwatch.yml"


def run(
    config: Annotated[
        Path, typer.Argument(metavar="FILE", help="the configuration file; `lagwatch config example` prints one")
    ],
    once: Annotated[bool, typer.Option("--once", help="run every job once, then exit")] = False,
) -> None:
    """Run the agent until stopped. SIGHUP reloads the configuration, SIGTERM stops the agent."""
    settings = load_settings(config)
    set_up_logging(settings.agent.log_level)
    if once:
        agent = Agent(settings)
        outcomes = set(agent.run_once())
        faults = agent.faults()
        agent.stop()
        _exit_now(_exit_code(outcomes, faults))
    signals = _Signals()  # before the replay of the journal, which may take a while
    agent = Agent(settings)
    agent.start()
    while signals.next() == signal.SIGHUP:
        _reload(agent, config)
    agent.stop()
    _exit_now(0)


def _exit_code(outcomes: set[JobOutcome], faults: Sequence[str]) -> int:
    ran = outcomes - {JobOutcome.IDLE}
    if ran == {JobOutcome.FAILED}:
        return 2
    return 0 if ran <= {JobOutcome.FINE} and not faults else 1


class _Signals:
    """The signals sent to this process, in order.

    Python writes their numbers to a socket; the main thread reads them. A handler that sets a threading.Event would also
    run on the main thread, and can deadlock with its `wait`.
    """

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        signal.set_wakeup_fd(self._write.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def next(self) -> int:
        """The number of the next signal; blocks until there is one."""
        return self._read.recv(1)[0]


def _reload(agent: Agent, config: Path) -> None:
    """Apply the file; keep the old settings and log every mistake when it is invalid."""
    try:
        settings = load_settings(config)
        agent.reload(settings)
    except ConfigError as error:
        for problem in error.problems:
            log.error("configuration not reloaded: %s", problem)  # noqa: TRY400  # a mistake in the file: no traceback
        return
    set_up_logging(settings.agent.log_level)


def _exit_now(code: int) -> None:
    """Exit without joining threads: a collector thread that hangs in a system call would block an ordinary exit."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
