"""Cost of time lags: 350,000 observed partitions and 100,000 lags per poll, in seconds and bytes.

Figures are printed, not asserted: the machine may be shared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from lagwatch.batch import decode_rows, encode_rows
from lagwatch.broker_queries import TimestampAnswers
from lagwatch.time_lag import EndHistory, pack, unpack

T = TypeVar("T")
PARTITIONS, LAGS = 350_000, 100_000
POLLS, POLL_MS = 40, 30_000
T0 = 1_700_000_000_000
QUERIES = 2000


def test_a_poll_of_350_000_partitions() -> None:
    """A third of all partitions grows in each poll; of the lagging ones some are minutes behind and some days."""
    random = np.random.default_rng(1)
    keys = (np.arange(PARTITIONS, dtype=np.int64) // 50 << 20) | (np.arange(PARTITIONS) % 50)
    end = random.integers(10**6, 10**9, PARTITIONS)
    behind = np.sort(random.choice(PARTITIONS, LAGS, replace=False))  # rows come by topic and partition
    committed = end[behind] - random.integers(1, 10**5, LAGS)
    history = EndHistory()
    laps: dict[str, list[float]] = {"ends": [], "lags": [], "questions": [], "answers": []}

    def timed(name: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        result = work()
        laps[name].append(time.perf_counter() - began)
        return result

    for number in range(POLLS):
        now = T0 + number * POLL_MS
        end = end + np.where(random.random(PARTITIONS) < 1 / 3, random.integers(1, 5000, PARTITIONS), 0)
        sent = now + random.integers(0, 50, 3)[np.arange(PARTITIONS) % 3]  # three brokers
        timed("ends", lambda end=end, sent=sent: history.observe(keys, end, sent, sent + 40))  # type: ignore[misc]
        ends = end[behind]
        lag = timed("lags", lambda ends=ends, now=now: history.lag_of(keys[behind], committed, ends, now))  # type: ignore[misc]
        wanted = timed(
            "questions",
            lambda lag=lag, now=now: history.next_queries(  # type: ignore[misc]
                keys[behind], committed, lag, now, poll_ms=POLL_MS, limit=QUERIES
            ),
        )
        offset = np.maximum(wanted.end - 10**6, 0)
        found = TimestampAnswers(
            wanted.key, wanted.target_ms, wanted.end, offset, np.maximum(wanted.target_ms, T0 - 10**9)
        )
        timed("answers", lambda found=found, now=now: history.observe_timestamps(found, now))  # type: ignore[misc]

    began = time.perf_counter()
    packed = encode_rows(pack(history, lambda topic: (f"topic-{topic}", f"id-{topic}")))
    packing = time.perf_counter() - began
    began = time.perf_counter()
    restored = EndHistory()
    unpack(decode_rows(packed), restored, lambda topic, _: int(topic.removeprefix("topic-")))
    unpacking = time.perf_counter() - began
    assert len(restored) == PARTITIONS

    print(f"\n{PARTITIONS:,} partitions, {LAGS:,} lags, {QUERIES:,} queries a poll; {POLLS} polls, median and worst")
    print("| what | s a poll | worst |")
    print("| --- | --- | --- |")
    for name, seconds in laps.items():
        print(f"| {name} | {statistics.median(seconds[2:]):.3f} | {max(seconds[2:]):.3f} |")
    older = history.older
    print(
        f"{history.nbytes / PARTITIONS:.0f} bytes a partition, {history.nbytes / 2**20:.0f} MiB in all, "
        f"{older.table.nbytes / 2**20:.0f} of them for {len(older.table):,} lagging ones with {older.slots} points; "
        f"checkpoint {len(packed) / 2**20:.1f} MiB, packed in {packing:.2f} s, taken up in {unpacking:.2f} s"
    )
