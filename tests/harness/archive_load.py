"""Archives one hour of a large cluster in its own process and reports the cost.

`python -m tests.harness.archive_load FOLDER SERIES POLLS` prints one line of JSON. Offsets grow by random increments, each
partition at its own rate; three in ten do not move.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lagwatch.batch import Batch, Masked, Texts, make_batch
from lagwatch.catalogue import CONSUMER_LAG
from lagwatch.clock import SystemClock
from lagwatch.sinks.archive.sink import archived_batches
from tests.harness.archives import HOUR_MS, NOON_MS, Sinks
from tests.harness.memory import peak_bytes

PARTITIONS = 10


def hour(series: int, polls: int) -> Iterator[Batch]:
    """The polls of an hour: groups of ten topics with ten partitions each."""
    random = np.random.default_rng(1)
    rate = random.lognormal(3, 2, series) * (random.random(series) > 0.3)
    end = random.integers(10**6, 10**10, series)
    moved_at = np.full(series, NOON_MS) - random.integers(0, 10**6, series)
    numbers = np.arange(series)
    groups, topics = numbers // (PARTITIONS * 10), numbers // PARTITIONS % 500
    names = [f"group-{number:05}" for number in range(series // (PARTITIONS * 10) + 1)]
    step_ms = HOUR_MS // polls
    for poll in range(polls):
        at_ms = NOON_MS + poll * step_ms + int(random.integers(0, 20))
        arrived = random.poisson(rate * step_ms / 1000)
        end = end + arrived
        lag = random.poisson(rate * 5)
        moved_at = np.where(arrived > 0, at_ms - random.integers(0, 10_000, series), moved_at)
        yield make_batch(
            CONSUMER_LAG,
            "large",
            at_ms,
            {
                "group": Texts(groups.astype(np.int32), names),
                "topic": Texts(topics.astype(np.int32), [f"topic-{number:05}" for number in range(500)]),
                "partition": numbers % PARTITIONS,
                "committed_offset": end - lag,
                "lag": lag,
                "seconds_since_moved": (at_ms - moved_at) / 1000,
                "stale": np.zeros(series, dtype=bool),
                "age_seconds": Masked(np.zeros(series), np.zeros(series, dtype=bool)),
            },
        )


def run(folder: Path, series: int, polls: int) -> dict[str, float]:
    """Archive the hour; peaks are of the whole process, in bytes."""
    archive = Sinks()(folder, clock=SystemClock(), partition_rows_every_seconds=3600 / polls)
    taking = 0.0
    batch = None
    for poll, batch in enumerate(hour(series, polls), 1):
        start = time.process_time()
        archive.write(poll, [batch])
        taking += time.process_time() - start
    peak_taking = peak_bytes()
    spool = archive._open[NOON_MS // HOUR_MS]._spool.size
    start = time.process_time()
    archive._finish_left(NOON_MS + 2 * HOUR_MS)
    finishing = time.process_time() - start
    peak_finishing = peak_bytes()
    (file,) = folder.rglob("*.parquet")
    size = file.stat().st_size
    start = time.process_time()
    last = archived_batches(str(folder), CONSUMER_LAG, NOON_MS + HOUR_MS - 60_000, NOON_MS + HOUR_MS)
    if batch is None or sum(len(found) for found in last) != series * max(1, polls // 60):
        raise AssertionError("not all rows are there")
    reading = time.process_time() - start
    late = make_batch(CONSUMER_LAG, "large", NOON_MS + 1, {"group": ["late"], "topic": ["t"], "partition": [0]})
    start = time.process_time()
    archive.write(polls + 1, [late])
    archive._finish_left(NOON_MS + 2 * HOUR_MS)
    merging = time.process_time() - start
    return {
        "rows": series * polls,
        "taking": taking,
        "finishing": finishing,
        "merging": merging,
        "reading": reading,
        "spool": spool,
        "size": size,
        "peak_taking": peak_taking,
        "peak_finishing": peak_finishing,
        "peak_merging": peak_bytes(),
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
