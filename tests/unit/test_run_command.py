"""Exit codes of `lagwatch run --once`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lagwatch.cli.run_command import _exit_code
from lagwatch.runtime.job import JobOutcome
from tests.harness.agents import write_config

FINE, PARTLY, FAILED, IDLE = JobOutcome.FINE, JobOutcome.PARTLY, JobOutcome.FAILED, JobOutcome.IDLE


@pytest.mark.parametrize(
    ("outcomes", "faults", "code"),
    [
        ({FINE}, [], 0),
        ({FINE, IDLE}, [], 0),
        ({FINE, FAILED}, [], 1),
        ({PARTLY}, [], 1),
        ({FINE, IDLE}, ["disk full"], 1),
        ({FAILED, IDLE}, [], 2),
        ({FAILED, IDLE}, ["disk full"], 2),
    ],
)
def test_the_exit_code_reflects_the_outcome(outcomes: set[JobOutcome], faults: Sequence[str], code: int) -> None:
    assert _exit_code(outcomes, faults) == code


def test_an_unreachable_cluster_exits_2(tmp_path: Path) -> None:
    config = write_config(tmp_path, "127.0.0.1:1")
    command = [sys.executable, "-m", "lagwatch.cli", "run", str(config), "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
