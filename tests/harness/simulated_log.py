"""A simulated partition with known records and a group that reads it, to check time lag against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.broker_queries import TimestampAnswers
from lagwatch.time_lag import EndHistory, SelectedTimestamps, TimeLag

KEY = 1 << 20
Ints = npt.NDArray[np.int64]


class SimulatedLog:
    """Records by offset: append time, and record timestamp, which is no later."""

    def __init__(self, appended_ms: Sequence[int] | Ints, delay_ms: Sequence[int] | Ints | int = 0) -> None:
        self.appended = np.sort(np.asarray(appended_ms, np.int64))
        self.time = self.appended - np.asarray(delay_ms, np.int64)
        self.highest = np.maximum.accumulate(self.time) if len(self.time) else self.time

    def end(self, at_ms: float) -> int:
        """The log end offset at a time."""
        return int(np.searchsorted(self.appended, at_ms, side="right"))

    def first_at_or_after(self, time_ms: int, at_ms: float, start: int = 0) -> tuple[int, int]:
        """The ListOffsets response at a time: offset and timestamp of the first matching record, or -1 and -1."""
        end = self.end(at_ms)
        found = start + np.flatnonzero(self.time[start:end] >= time_ms)[:1]
        return (int(found[0]), int(self.time[found[0]])) if len(found) else (-1, -1)

    def age_seconds(self, offset: int, at_ms: float) -> float:
        """The true age of the record at an offset; 0 without a record."""
        return (at_ms - float(self.time[offset])) / 1000 if offset < self.end(at_ms) else 0.0


@dataclass(frozen=True, slots=True)
class TimedVerdict:
    """One poll: the estimate beside the truth, in seconds."""

    truth: float
    seconds: float
    low: float
    high: float
    known: bool
    low_known: bool

    @property
    def inside(self) -> bool:
        """Whether the truth is within the bounds, to the millisecond."""
        return (not self.low_known or self.low <= self.truth + 1e-3) and (
            not self.known or self.truth <= self.high + 1e-3
        )


class Watcher:
    """Polls a simulated log for one group like the agent: queries selected after a poll run before the next one."""

    def __init__(self, log: SimulatedLog, history: EndHistory, poll_ms: int, key: int = KEY) -> None:
        self.log, self.history, self.poll_ms = log, history, poll_ms
        self.queries = 0
        self._key = np.array([key], np.int64)
        self._wanted: SelectedTimestamps | None = None

    def poll(self, sent_ms: int, read_ms: int, received_ms: int, committed: int, *, start: int = 0) -> TimedVerdict:
        """One poll with the end offset read at `read_ms`, evaluated at `received_ms`."""
        self.ask(sent_ms, start=start)
        end = np.array([self.log.end(read_ms)], np.int64)
        self.history.observe(self._key, end, sent_ms, received_ms)
        at = np.array([max(committed, start)], np.int64)
        lag = self.history.lag_of(self._key, at, end, received_ms)
        self._wanted = self.history.next_queries(self._key, at, lag, received_ms, poll_ms=self.poll_ms, limit=10)
        truth = 0.0 if at[0] >= end[0] else self.log.age_seconds(int(at[0]), received_ms)
        return evaluated(lag, 0, truth)

    def ask(self, at_ms: int, *, start: int = 0) -> None:
        """Add the answers to the queries of the last poll."""
        wanted, self._wanted = self._wanted, None
        if wanted is None or not len(wanted):
            return
        self.queries += len(wanted)
        found = [self.log.first_at_or_after(int(time), at_ms, start) for time in wanted.target_ms]
        offset, time = np.array(found, np.int64).T
        self.history.observe_timestamps(TimestampAnswers(wanted.key, wanted.target_ms, wanted.end, offset, time), at_ms)


def evaluated(lag: TimeLag, row: int, truth: float) -> TimedVerdict:
    """One row of an answer beside the truth at the same moment."""
    return TimedVerdict(
        truth,
        float(lag.seconds[row]),
        float(lag.low[row]),
        float(lag.high[row]),
        bool(lag.known[row]),
        bool(lag.low_known[row]),
    )


@dataclass(frozen=True, slots=True)
class ErrorTally:
    """The summary of the polls of a scenario."""

    polls: int
    answered: float
    inside: float
    median_error: float
    median_share: float
    worst_share: float
    median_width: float

    def row(self, name: str, queries: str) -> str:
        """A line of a table; `queries` is their number."""
        shares = (self.answered, self.inside)
        numbers = (self.median_error, self.median_share, self.worst_share, self.median_width)
        cells = [*(f"{share:.2%}" for share in shares), *(f"{number:.2f}" for number in numbers)]
        return f"| {name} | {self.polls} | {' | '.join(cells)} | {queries} |"


_TITLES = (
    "scenario", "polls", "with a value", "truth within bounds", "median error, s",
    "median error / allowed", "worst", "median width of bounds, s", "queries to brokers",
)  # fmt: skip
HEAD = f"| {' | '.join(_TITLES)} |\n|{' --- |' * len(_TITLES)}"


def tally(polls: Sequence[TimedVerdict], poll_seconds: float) -> ErrorTally:
    """Errors in seconds, and as shares of what is allowed: 2 % of the lag or half a poll, whichever is more."""
    known = [poll for poll in polls if poll.known]
    error = np.array([abs(poll.seconds - poll.truth) for poll in known])
    share = error / np.array([max(0.02 * poll.truth, poll_seconds / 2) for poll in known])
    return ErrorTally(
        len(polls),
        len(known) / len(polls),
        sum(poll.inside for poll in polls) / len(polls),
        float(np.median(error)),
        float(np.median(share)),
        float(share.max()),
        float(np.median([poll.high - poll.low for poll in known])),
    )


def run_polls(
    watcher: Watcher, polls: int, first_ms: int, committed: Callable[[int], int], random: np.random.Generator
) -> list[TimedVerdict]:
    """Regular polls of a fraction of a second each; `committed` returns the group's offset at a time."""
    found = []
    for number in range(polls):
        sent = first_ms + number * watcher.poll_ms
        read = sent + int(random.integers(0, 60))
        received = read + int(random.integers(0, 60))
        found.append(watcher.poll(sent, read, received, committed(sent)))
    return found
