"""Cost of the archive for an hour of a large cluster: rows per second, bytes per row, and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lagwatch.text import size_text

ROOT = Path(__file__).parents[2]
MEMORY_AIM = 300 * 2**20


@pytest.mark.parametrize(("series", "polls", "every"), [(100_000, 60, "60 s"), (20_000, 360, "10 s")])
def test_an_hour_of_many_group_partitions(tmp_path: Path, series: int, polls: int, every: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.harness.archive_load", str(tmp_path), str(series), str(polls)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    cost = json.loads(result.stdout)
    rows = cost["rows"]
    seconds = cost["taking"] + cost["finishing"]
    print(f"\nArchive, one hour of {series:,} group-partitions every {every}: {rows:,} rows")
    print(f"  written      {rows / seconds:>12,.0f} rows a second of CPU", end="")
    print(f" ({cost['taking']:.1f} s as polls come, {cost['finishing']:.1f} s when the hour ends)")
    print(f"  late rows    {cost['merging']:>12.1f} s of CPU to make the hour's file again")
    print(f"  read back    {cost['reading']:>12.1f} s of CPU for one minute of it")
    print(f"  size         {cost['size'] / rows:>12.2f} bytes a row ({size_text(cost['size'])})", end="")
    print(f"; {cost['spool'] / rows:.2f} in the spool while the hour lasts")
    met = "met" if cost["peak_finishing"] < MEMORY_AIM else "NOT met"
    print(f"  peak memory  {size_text(cost['peak_finishing']):>12} of the whole process", end="")
    print(f" ({size_text(cost['peak_taking'])} before the hour ends, {size_text(cost['peak_merging'])} with late rows)")
    print(f"  Aim, under {size_text(MEMORY_AIM)} when the hour ends: {met}")
