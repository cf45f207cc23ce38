"""Cost of evaluating 350,000 windows at once, compared with a plain loop over the same rules.

Figures are printed, not asserted: the machine may be shared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from lagwatch.cli.classify_input import read_settings
from lagwatch.verdict.classify import classify_burrow
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Mode, Status
from lagwatch.windows import Commits, EndOffsets, Windows, WindowStore
from tests.harness.burrow_cases import cases
from tests.harness.burrow_reference import evaluate_partition
from tests.harness.burrow_windows import windows_of_lines
from tests.harness.window_batches import texts

WINDOWS, SLOTS = 350_000, 10
RUNS = 7
AIM_TIMES, AIM_SECONDS = 5, 0.3


def test_evaluating_at_once_compared_with_a_plain_loop() -> None:
    lines = [case["input"] for case in cases("partition") if len(case["input"]["offsets"]) == SLOTS]
    windows = _tiled(windows_of_lines(lines), WINDOWS)
    settings = [read_settings(line) for line in lines]
    at = np.arange(WINDOWS) % len(lines)
    policy = Policy(
        np.array([given.allowed_lag for given in settings])[at],
        np.array([given.minimum_complete for given in settings], np.float32)[at],
        np.full(WINDOWS, Mode.BURROW, np.uint8),
    )
    now = np.array([given.now_s for given in settings])[at]
    loop_lines = lines * 40

    ours = _median(lambda: classify_burrow(windows, policy, now))
    loop = _median(lambda: [evaluate_partition(line, line) for line in loop_lines], runs=3)
    plain = _plain_lists(lines) * 40
    tight = _median(lambda: [_judge_lists(*line) for line in plain], runs=3)

    found = classify_burrow(windows, policy, now).status[: len(lines)].tolist()
    assert [Status(status).name for status in found] == [_judge_lists(*line)[0] for line in plain[: len(lines)]]
    our_rate, loop_rate, tight_rate = WINDOWS / ours, len(loop_lines) / loop, len(plain) / tight
    print(f"\n{WINDOWS:,} windows of {SLOTS} slots, the shared cases tiled, one call: {ours:.3f} s (median of {RUNS})")
    print("| what | windows a second | times |")
    print("| --- | --- | --- |")
    print(f"| lagwatch, all at once | {our_rate:,.0f} | |")
    print(f"| plain loop over lists of numbers, the same answers | {tight_rate:,.0f} | {our_rate / tight_rate:.1f} |")
    print(f"| plain loop over slots as dicts (the tests' reference) | {loop_rate:,.0f} | {our_rate / loop_rate:.1f} |")
    met = "met" if our_rate >= AIM_TIMES * tight_rate and ours <= AIM_SECONDS else "NOT met"
    print(f"Aim, {AIM_TIMES} times the faster loop and {AIM_SECONDS} s: {met}.")


def test_adding_a_poll_of_commits_to_the_windows() -> None:
    groups, partitions = 70, 5000
    store = WindowStore(SLOTS)
    topic = texts(["t"] * partitions)
    partition = np.arange(partitions, dtype=np.int32)
    group_names = texts([f"g{number}" for number in range(groups) for _ in range(partitions)])
    topic_names = texts(["t"] * (groups * partitions))
    laps: dict[str, list[float]] = {"ends": [], "commits": [], "view": [], "judge": []}
    for poll in range(12):
        end = np.full(partitions, 1000 * poll + 500)
        commits = Commits(
            group=group_names,
            topic=topic_names,
            partition=np.tile(partition, groups),
            offset=np.full(groups * partitions, 1000 * poll),
            order=np.full(groups * partitions, poll),
            timestamp=np.full(groups * partitions, 10_000 * poll),
        )
        ends = EndOffsets(topic, partition, np.full(partitions, partitions), end)
        policy = Policy.of_burrow(groups * partitions)
        laps["ends"].append(_timed(partial(store.observe_ends, ends)))
        laps["commits"].append(_timed(partial(store.observe_commits, commits)))
        laps["view"].append(_timed(store.windows))
        laps["judge"].append(_timed(partial(classify_burrow, store.windows(), policy, 10 * poll + 1)))
    print(f"\nA poll of {groups * partitions:,} moved commits over {partitions:,} ends, median ms (first poll):")
    for name, seconds in laps.items():
        print(f"  {name}: {1000 * statistics.median(seconds[1:]):.0f} ({1000 * seconds[0]:.0f})")
    print(f"  {store.nbytes / (groups * partitions):.0f} bytes a row")


def _tiled(windows: Windows, rows: int) -> Windows:
    at = np.arange(rows) % len(windows)
    tiled = windows.take(at)
    ends = np.asfortranarray(windows.ends[at])
    own = np.arange(rows, dtype=np.int32)
    tiled = replace(tiled, ends=ends, ends_kept=windows.ends_kept[at], end_row=own)
    assert all(len(getattr(tiled, field.name)) == rows for field in fields(tiled))
    return tiled


def _plain_lists(lines: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = []
    for line in lines:
        filled = [slot for slot in line["offsets"] if slot is not None]
        columns = [[slot[name] for slot in filled] for name in ("offset", "timestamp", "lag")]
        names = ("broker_offsets", "current_lag", "now", "allowed_lag", "minimum_complete")
        found.append((len(line["offsets"]), *columns, *(line[name] for name in names)))
    return found


def _judge_lists(
    slots: int,
    offsets: list[int],
    times: list[int],
    lags: list[int | None],
    ends: list[int],
    current_lag: int,
    now_s: int,
    allowed: int,
    minimum: float,
) -> tuple[str, float, int, int]:
    """Status, complete, first and last slot."""
    if not offsets:
        return "OK", 1 / slots if slots else 0.0, -1, -1
    status, complete = "OK", len(offsets) / slots
    if complete >= minimum and current_lag > allowed:
        status = _judge_rules(offsets, times, lags, ends, now_s, allowed)
    return status, complete, slots - len(offsets), slots - 1


def _judge_rules(  # noqa: C901, PLR0912 -- as fast as a loop can be: nothing is called, and it ends where it may
    offsets: list[int], times: list[int], lags: list[int | None], ends: list[int], now_s: int, allowed: int
) -> str:
    newest, newest_time = offsets[-1], times[-1]
    if now_s * 1000 - newest_time > newest_time - times[0]:
        for end in ends:
            if end <= newest:
                break
        else:
            return "STOP"
    height = None
    before = offsets[0]
    moved = False
    for offset in offsets:
        if height is not None:
            if offset >= height:
                break
        elif offset < before:
            height = before
        if offset != before:
            moved = True
        before = offset
    else:
        if height is not None:
            return "REWIND"
    falls, last = False, -1
    for lag in lags:
        if lag is not None:
            if lag <= allowed:
                return "OK"
            if lag < last:
                falls = True
            last = lag
    if not moved:
        return "STALL"
    return "OK" if falls else "WARN"


def _median(work: Callable[[], object], runs: int = RUNS) -> float:
    return statistics.median(_timed(work) for _ in range(runs))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
