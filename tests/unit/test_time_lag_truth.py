"""Time lag against the truth on a virtual clock: hundreds of polls for each kind of traffic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lagwatch.time_lag import EndHistory
from tests.harness.simulated_log import HEAD, ErrorTally, SimulatedLog, Watcher, run_polls, tally

T0 = 1_700_000_000_000
POLLS, POLL_MS = 600, 10_000
HOUR, DAY = 3_600_000, 86_400_000
SPAN = POLLS * POLL_MS
Committed = Callable[[int], int]


def by_rate(rate: Callable[[float], float], first_ms: int, last_ms: int, random: np.random.Generator) -> SimulatedLog:
    """Records at a rate a second that changes with the hour, each a little older than its place in the log."""
    times, at = [], float(first_ms)
    while at < last_ms:
        at += 1000 * random.exponential(1 / rate((at - T0) / HOUR))
        times.append(round(at))
    return SimulatedLog(times, random.integers(0, 300, len(times)))


def steady(random: np.random.Generator) -> tuple[SimulatedLog, Committed]:
    """20 records a second, read a minute late."""
    log = by_rate(lambda _: 20, T0 - 300_000, T0 + SPAN, random)
    return log, lambda at: log.end(at - 60_000)


def bursty(random: np.random.Generator) -> tuple[SimulatedLog, Committed]:
    """3,000 records within seconds every ten minutes, silence between, read at 8 a second."""
    bursts = range(T0 - 2 * 600_000, T0 + SPAN, 600_000)
    log = SimulatedLog(np.concatenate([burst + random.integers(0, 5000, 3000) for burst in bursts]))

    def committed(at: int) -> int:
        into = (at - bursts[0]) % 600_000
        number = (at - bursts[0]) // 600_000
        return int(min(3000 * number + 8 * into // 1000, log.end(at)))

    return log, committed


def idle(random: np.random.Generator) -> tuple[SimulatedLog, Committed]:
    """A record every few minutes, read half a minute late; nothing at all for the last third."""
    times = T0 - HOUR + np.cumsum(random.integers(60_000, 400_000, 30))
    log = SimulatedLog(times[times < T0 + 2 * SPAN // 3])
    return log, lambda at: log.end(at - 30_000)


def replay_of_days(random: np.random.Generator) -> tuple[SimulatedLog, Committed]:
    """Seven days of records, many by day and few by night, read again from the start while the agent just came."""
    log = by_rate(lambda hour: 0.15 + 0.12 * np.sin(hour * np.pi / 12), T0 - 7 * DAY, T0 + SPAN, random)
    speed = 0.7 * log.end(T0) / SPAN
    return log, lambda at: int((at - T0) * speed)


def stopped(random: np.random.Generator) -> tuple[SimulatedLog, Committed]:
    """A group that read everything until it stopped, while records go on coming with the hour of the day."""
    log = by_rate(lambda hour: 2 + 1.9 * np.sin(hour * np.pi / 2), T0 - 600_000, T0 + SPAN, random)
    return log, lambda at: log.end(min(at, T0 + SPAN // 10))


@pytest.mark.parametrize("scenario", [steady, bursty, idle, replay_of_days, stopped])
def test_the_truth_lies_within_the_bounds(
    scenario: Callable[[np.random.Generator], tuple[SimulatedLog, Committed]],
) -> None:
    random = np.random.default_rng(7)
    log, committed = scenario(random)
    watcher = Watcher(log, EndHistory(), POLL_MS)

    polls = run_polls(watcher, POLLS, T0, committed, random)

    found: ErrorTally = tally(polls, POLL_MS / 1000)
    print(f"\n{HEAD}\n{found.row(scenario.__name__, f'{watcher.queries} times')}")
    assert found.answered >= 0.99
    assert found.inside == 1.0
    assert found.median_share <= 1.0
    assert all(poll.low <= poll.seconds <= poll.high for poll in polls if poll.known)
