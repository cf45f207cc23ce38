"""The agent's memory at 100,000 group-partitions a poll, while topics and groups come and go."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

CYCLES = 100
MOST_BYTES = 250 * 2**20
FLAT = 1.05


def test_memory_stays_small_and_flat_over_a_hundred_polls(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.harness.memory_run", str(tmp_path), str(CYCLES)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)

    assert done.returncode == 0, done.stderr
    cycles = [json.loads(line) for line in done.stdout.splitlines()]
    rss, peak = [cycle["rss"] for cycle in cycles], cycles[-1]["peak"]
    figures = ", ".join(f"cycle {number}: {rss[number - 1] / 2**20:.1f}" for number in (10, 50, CYCLES))
    print(f"\nRSS in MiB at 100,000 group-partitions: {figures}; peak {peak / 2**20:.1f}")
    assert peak < MOST_BYTES
    # Single values go up and down by some MiB as the allocators give pages back.
    assert statistics.median(rss[-10:]) < FLAT * statistics.median(rss[5:15])
