"""Forecasts from windows: consume rate, time to catch up, and time until retention deletes unread messages. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.verdict.burrow_rules import is_filled, neighbours
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.lagwatch_rules import GAPS, UNKNOWN_RHYTHM_MS, patience_ms
from lagwatch.verdict.policy import DEFAULT_FLOOR_MS
from lagwatch.windows.view import Windows

Floats = npt.NDArray[np.float64]
NEVER = np.inf
_DEAD_BAND = 0.02  # of the produce rate: a consumer faster by less counts as not catching up


@dataclass(frozen=True, slots=True)
class Retention:
    """When messages of each row's partition are deleted: by age and by size; NEVER where neither applies."""

    seconds: Floats
    messages_left: Floats  # that may arrive before the size limit moves the log start


@dataclass(frozen=True, slots=True)
class Forecast:
    """One value a row; NEVER where it does not happen at these rates."""

    consume_rate: Floats
    produce_rate: Floats
    catch_up_seconds: Floats
    loss_seconds: Floats


def forecast(windows: Windows, facts: Facts, lag_seconds: Floats, retention: Retention) -> Forecast:
    """The forecast of each row, at the rates of its window."""
    consume, produce = consume_rates(windows, facts), facts.messages_a_second
    lag = windows.current_lag.astype(np.float64)
    gain = consume - produce
    # Messages that arrive between two moves do not count as behind.
    in_flight = np.maximum(produce * facts.gap_ms * GAPS / 1000, facts.markers)
    gains = gain > _DEAD_BAND * produce
    # No forecast while the rhythm of a consumer is unknown, unless it has not moved for longer than any patience.
    too_early = (facts.gap_ms == 0) & (facts.since_moved_ms < UNKNOWN_RHYTHM_MS)
    calm = too_early | (lag <= in_flight)
    catch_up = np.where(calm, 0.0, np.where(gains, lag / np.maximum(gain, 1e-9), NEVER))
    return Forecast(consume, produce, catch_up, _loss(windows, facts, lag_seconds, retention, consume, catch_up))


def consume_rates(windows: Windows, facts: Facts) -> Floats:
    """Messages a second by which offsets advanced over the window, without steps back; 0 after patience is over."""
    progress = np.zeros(len(windows), np.int64)
    for before, slot in neighbours(windows):
        step = windows.offset[:, slot] - windows.offset[:, before]
        progress += np.where(is_filled(windows, before) & (step > 0), step, 0)
    oldest = windows.timestamp[np.arange(len(windows)), windows.first]
    span_ms = windows.timestamp[:, -1] - oldest + np.maximum(facts.since_moved_ms - facts.gap_ms, 0)
    moves = facts.since_moved_ms <= patience_ms(facts.gap_ms, np.full(len(windows), DEFAULT_FLOOR_MS))
    rate: Floats = np.zeros(len(windows))
    np.divide(progress * 1000.0, span_ms, out=rate, where=(span_ms > 0) & (windows.kept > 1) & moves)
    return rate


def _loss(
    windows: Windows, facts: Facts, lag_seconds: Floats, retention: Retention, consume: Floats, catch_up: Floats
) -> Floats:
    """Earliest time until unread messages are deleted; usually it is later, because Kafka deletes whole segments.

    By time: the oldest unread message ages by a second a second, minus what reading gains. By size: the log start follows
    the log end once the partition is full.
    """
    produce = facts.messages_a_second
    ages = np.where(
        produce > 0, 1 - np.minimum(consume / np.maximum(produce, 1e-9), 1), np.where(consume > 0, 0.0, 1.0)
    )
    by_time = np.where(ages > 0, np.maximum(retention.seconds - lag_seconds, 0) / np.maximum(ages, 1e-9), NEVER)
    offset = windows.offset[:, -1]
    until_start = np.maximum(offset - np.maximum(facts.log_start, 0), 0) + retention.messages_left
    closes = produce - consume
    by_size = np.where(closes > 0, until_start / np.maximum(closes, 1e-9), NEVER)
    safe = (windows.current_lag <= 0) | (windows.kept == 0) | (catch_up < NEVER)
    return np.where(safe, NEVER, np.minimum(by_time, by_size))
