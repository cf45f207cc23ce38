"""Measures wall and CPU seconds of this process, of a child, and of other processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuCost:
    """Wall and CPU seconds."""

    wall: float
    cpu: float

    def __add__(self, other: CpuCost) -> CpuCost:
        return CpuCost(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: CpuCost) -> CpuCost:
        return CpuCost(self.wall - other.wall, self.cpu - other.cpu)

    @classmethod
    def so_far(cls) -> CpuCost:
        """The current total of this process with all its threads; subtract two of them."""
        return cls(time.monotonic(), time.process_time())


def cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds of other processes since their start."""
    return sum(sum(map(int, _after_the_name(pid)[11:13])) for pid in pids) * _TICK


def _after_the_name(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def run_measured(command: Sequence[str]) -> tuple[str, CpuCost]:
    """The output of a command and its cost. Raises CalledProcessError when it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)  # Popen.wait does not return the resource usage
        child.returncode = os.waitstatus_to_exitcode(status)
        cost = CpuCost(time.monotonic() - began, usage.ru_utime + usage.ru_stime)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, command, out.read(), err.read())
        return out.read(), cost
