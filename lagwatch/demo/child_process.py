"""Processes that cannot outlive this one: a command enters, a running process that dies with us leaves.

A child on a leash is killed when this process ends in any way, `kill -9` included, and a folder on a leash is removed.
No signal handler and no atexit hook is needed for that, so the program that uses it keeps its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Runs in the child before the command: asks the kernel for SIGKILL at the parent's death, then becomes the command.
# A parent that died before the question was asked is noticed by its process id. Only Linux has prctl.
_BEFORE_EXEC = """
import ctypes, os, signal, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)
if prctl is not None:
    prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

# The kernel sends that signal when the *thread* that forked ends. So all children are forked by one thread, which
# lives as long as the process; a caller's thread may end as it likes.
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leash")


def start_on_leash(command: Sequence[str | Path], log_file: Path) -> subprocess.Popen[bytes]:
    """Start a command (an absolute path first), its output appended to the log file, in a session of its own.

    The session keeps Ctrl-C in a terminal from reaching it: whoever holds the leash decides when it stops.
    """
    return _forker.submit(_start, [str(word) for word in command], log_file, os.getpid()).result()


def _start(command: list[str], log_file: Path, parent: int) -> subprocess.Popen[bytes]:
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BEFORE_EXEC, str(parent), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class FolderKeeper:
    """Removes a folder once this process is gone.

    A shell waits for the end of a pipe that only this process holds open, then gives killed children a second to go.
    """

    def __init__(self, folder: Path) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", 'cat >/dev/null; sleep 1; rm -rf -- "$1"', "folder-keeper", str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the wait without removing anything: the folder is gone or somebody else's now."""
        self._shell.kill()
        self._shell.communicate()
