"""Starts child processes that the kernel kills when this process ends, and removes a folder then.

This works for any end, `kill -9` included, without signal handlers or atexit hooks, so the program can use its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Runs in the child before the command: requests SIGKILL at the parent's death from the kernel, then executes the command.
# The check of the parent's process id covers a parent that died before the request. Only Linux has prctl.
_BEFORE_EXEC = """
import ctypes, os, signal, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)
if prctl is not None:
    prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

# The kernel sends that signal when the *thread* that forked ends. So one thread, which runs until the process ends, forks
# all children; the thread of a caller may end at any time.
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="child-process")


def start_child_process(command: Sequence[str | Path], log_file: Path) -> subprocess.Popen[bytes]:
    """Start a command (an absolute path first) in its own session and append its output to the log file.

    The session shields it from Ctrl-C in a terminal: this process decides when it stops.
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


class FolderRemover:
    """Removes a folder when this process has ended.

    A shell waits for end-of-file on a pipe that only this process holds open, then gives killed children a second to exit.
    """

    def __init__(self, folder: Path) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", 'cat >/dev/null; sleep 1; rm -rf -- "$1"', "folder-remover", str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def cancel(self) -> None:
        """Stop waiting and leave the folder as it is."""
        self._shell.kill()
        self._shell.communicate()
