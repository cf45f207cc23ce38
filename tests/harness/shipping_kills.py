"""Ships a backlog while polls continue, and kills InfluxDB and the shipping process at random times."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from random import Random

from lagwatch.demo.influxd import Influxd
from lagwatch.journal import Journal, JournalReader
from tests.harness.influx import per_series
from tests.harness.journal_load import lag_batch
from tests.harness.waiting import wait_until


def fill_while_down(path: Path, *, series: int, polls: int) -> None:
    """A journal with unshipped polls of the past hours."""
    now_ms = time.time_ns() // 1_000_000
    with Journal(path) as journal:
        journal.register_sink("influxdb")
        for number in range(polls):
            journal.append([lag_batch(series, now_ms - (polls - number) * 1000)])


def ship_under_fire(server: Influxd, path: Path, *, series: int, kills: int, random: Random) -> None:
    """Kill InfluxDB and the shipping process `kills` times each, then let them finish.

    A kill comes only after a new poll, so that it does not hit a process that has yet to start, however slow the machine.
    """
    reader = JournalReader(path)
    live = path.with_name(path.name + ".live")
    live.touch()
    shipping = _start(server, path, series)
    for kill in range(2 * kills):
        _wait_for_a_poll(reader)
        time.sleep(random.uniform(0.2, 1.2))  # the moment of the kill is what is random here
        if kill % 2:
            server.kill()
            time.sleep(random.uniform(0, 0.5))
            server.start()
        else:
            shipping.kill()
            shipping.wait()
            shipping = _start(server, path, series)
    live.unlink()
    try:
        wait_until(lambda: shipping.poll() is not None, 1200, "shipping never finished")
        assert shipping.returncode == 0, shipping.returncode
    finally:
        shipping.kill()


def _wait_for_a_poll(reader: JournalReader) -> None:
    before = reader.stats().newest_poll
    wait_until(lambda: reader.stats().newest_poll > before, 60, "no poll is appended")


def _start(server: Influxd, path: Path, series: int) -> subprocess.Popen[bytes]:
    where = [str(path), server.url, server.org, server.bucket, server.token, str(series)]
    return subprocess.Popen([sys.executable, "-m", "tests.harness.ship_journal", *where])


def check_everything_is_there_once(server: Influxd, path: Path) -> int:
    """Compare InfluxDB with the journal: every series has exactly its points; returns their number.

    `unique`, because InfluxDB 2.7 itself may return a point twice after a kill: docs/evidence.md.
    """
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    sums: dict[tuple[str, ...], int] = defaultdict(int)
    times: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for poll in JournalReader(path).tail():
        for batch in poll.batches:
            rows = zip(*(batch.rows[name].to_pylist() for name in ("group", "partition", "topic", "lag")), strict=True)
            for group, partition, topic, lag in rows:
                series = (batch.cluster, group, str(partition), topic)
                assert batch.at_ms not in times[series], "a poll is in the journal twice"
                times[series].add(batch.at_ms)
                counts[series] += 1
                sums[series] += lag
    for how, expected in (("count", counts), ("sum", sums)):
        found = per_series(server, "consumer_lag", "lag", f'unique(column: "_time") |> {how}')
        keys = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
        differing = [(key, found.get(key), expected.get(key)) for key in keys]
        assert not differing, f"{how} of {len(differing)} series differs: {differing[:5]} (series, InfluxDB, journal)"
    return sum(counts.values())
