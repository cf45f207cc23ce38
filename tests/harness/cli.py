"""Runs the command in its own process, on a pipe or on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Its JSON output."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[str]:
        """Its output."""
        return self.stdout.splitlines()


def command(*arguments: object) -> list[str]:
    """The command line that starts lagwatch."""
    return [sys.executable, "-W", "ignore", "-m", "lagwatch.cli", *(str(argument) for argument in arguments)]


def lagwatch(*arguments: object, timeout: float = 120) -> Ran:
    """Run a command to its end."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=timeout)
    return Ran(done.returncode, done.stdout, done.stderr)


def on_terminal(arguments: Sequence[object], *, columns: int = 100, timeout: float = 60) -> str:
    """The output on a terminal of this width."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux returns EIO when the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    process.wait(timeout=timeout)
    return shown.decode()
