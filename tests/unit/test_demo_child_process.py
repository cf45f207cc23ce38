"""Child processes and folders that cannot outlive their owner, with `sleep` instead of Kafka."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lagwatch.demo.child_process import FolderRemover, start_child_process
from lagwatch.demo.kafka_node import wait_until
from tests.harness.processes import is_running

_SLEEP = shutil.which("sleep") or "/bin/sleep"

_HOLDER = """
import sys, time
from pathlib import Path
from lagwatch.demo.child_process import FolderRemover, start_child_process
remover = FolderRemover(Path(sys.argv[1]))
print(start_child_process([sys.argv[2], "600"], Path(sys.argv[1]) / "log").pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_child_and_folder_go_when_the_holder_dies(tmp_path: Path, death: signal.Signals) -> None:
    folder = tmp_path / "held"
    folder.mkdir()
    command = [sys.executable, "-c", _HOLDER, str(folder), _SLEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        assert is_running(child)

        holder.send_signal(death)

        assert wait_until(lambda: not is_running(child), seconds=10)
        assert wait_until(lambda: not folder.exists(), seconds=10)


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: started.append(start_child_process([_SLEEP, "600"], tmp_path / "log")))

    thread.start()
    thread.join()

    [child] = started
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.5)
    child.kill()
    child.wait()


def test_what_a_child_says_is_appended_to_its_log(tmp_path: Path) -> None:
    for word in ("one", "two"):
        start_child_process(["/bin/sh", "-c", f"echo {word}"], tmp_path / "log").wait(timeout=30)

    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_dismissed_keeper_leaves_the_folder(tmp_path: Path) -> None:
    remover = FolderRemover(tmp_path)
    # The command line of a process is empty right after exec.
    assert wait_until(lambda: len(_removers_of(tmp_path)) == 1, seconds=10)

    remover.cancel()

    # What the shell has just forked has its command line until it executes another program.
    assert wait_until(lambda: _removers_of(tmp_path) == [], seconds=10)
    assert tmp_path.exists()


def _removers_of(folder: Path) -> list[int]:
    """Processes that would remove the folder later."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended meanwhile
            words = file.read_bytes().split(b"\0")
            if b"folder-remover" in words and str(folder).encode() in words:
                found.append(int(file.parent.name))
    return found
