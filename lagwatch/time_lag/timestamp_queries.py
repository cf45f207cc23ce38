"""Selects timestamp queries that narrow the widest brackets first, and turns their answers into points. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.broker_queries import TimestampAnswers
from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Bracket, Ints, Points
from lagwatch.time_lag.estimate import NOTHING_UNREAD, TimeLag

_LAG_SHARE = 0.02  # half a bracket may be this share of the lag
_POLL_SHARE = 0.75  # or this share of a poll: between two polls it is half a poll, and polls are seldom on time
_FIRST_RECORD = 0  # the target time of a query for the first record of the log
_BISECT_EVERY = 3
_MAX_DOUBLINGS = 4  # of the back-off between queries
_MAX_WAITED = 100.0  # polls


@dataclass(frozen=True, slots=True)
class SelectedTimestamps:
    """Queries for the first record of partition `key` at or after `target_ms`; `end` is its end offset before the query."""

    key: Ints
    target_ms: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class PastQueries:
    """Earlier queries of partitions: the last one's time, their number, and how many in a row brought nothing new."""

    at_ms: Ints
    count: npt.NDArray[np.int32]
    fruitless: npt.NDArray[np.int32]


def select_queries(
    keys: Ints, lag: TimeLag, past: PastQueries, now_ms: int, poll_ms: int, limit: int
) -> tuple[npt.NDArray[np.intp], Ints]:
    """The rows to query and their target times: at most one per partition and `limit` in total.

    Twice the bracket width weighs as much as waiting one more poll, so no partition starves. A partition without answers,
    or with answers that add nothing (the offset lies in a gap of a compacted topic), backs off exponentially.
    """
    need = _need(lag, now_ms, poll_ms)
    waited = np.minimum((now_ms - past.at_ms) / max(poll_ms, 1), _MAX_WAITED)
    back_off = 2.0 ** np.minimum(past.fruitless, _MAX_DOUBLINGS) - 0.5
    rows = np.flatnonzero((need > 1) & ~lag.skewed & (lag.source != NOTHING_UNREAD) & (waited >= back_off))
    rows = rows[np.lexsort((-need[rows], keys[rows]))]
    rows = rows[np.r_[True, keys[rows][1:] != keys[rows][:-1]]] if len(rows) else rows
    score = np.log2(need[rows]) + waited[rows]
    rows = np.sort(rows[np.argsort(-score, kind="stable")[:limit]])
    return rows, _target_times(lag, rows, past, _allowed(lag, now_ms, poll_ms)[rows])


def _allowed(lag: TimeLag, now_ms: int, poll_ms: int) -> npt.NDArray[np.float64]:
    allowed: npt.NDArray[np.float64] = np.maximum(_POLL_SHARE * poll_ms, _LAG_SHARE * (now_ms - lag.guess_ms))
    return allowed


def _need(lag: TimeLag, now_ms: int, poll_ms: int) -> npt.NDArray[np.float64]:
    """Half the bracket width relative to the allowed one; a bracket without a lower bound starts in 1970."""
    after = np.where(lag.after_ms > NEVER, lag.after_ms, 0)
    need: npt.NDArray[np.float64] = (lag.before_ms - after) / 2 / _allowed(lag, now_ms, poll_ms)
    return need


def _target_times(
    lag: TimeLag, rows: npt.NDArray[np.intp], past: PastQueries, allowed: npt.NDArray[np.float64]
) -> Ints:
    """Queries the first record first; then cuts off the wider side just beside the estimate, every third time halves.

    With a good estimate two cuts leave a narrow bracket around it; with a bad one the bracket is halved often enough.
    """
    after, before, guess = lag.after_ms[rows], lag.before_ms[rows], lag.guess_ms[rows]
    margin = (0.9 * allowed).astype(np.int64)
    beside = np.where(guess - after > before - guess, guess - margin, guess + margin)
    bisected = past.count[rows] % _BISECT_EVERY == _BISECT_EVERY - 1
    target = np.where(bisected, after + (before - after) // 2, beside)
    target = np.clip(target, after + 1, np.maximum(before, after + 1))
    return np.where(after > NEVER, target, _FIRST_RECORD)


def is_informative(answers: TimestampAnswers, dense: Bools, here: Bracket, before_it: Bracket) -> Bools:
    """Whether answers narrow the bracket of the record they return, or of the one before it."""
    none, first = answers.offset < 0, answers.target_ms <= _FIRST_RECORD
    exactly = (here.after < answers.time_ms) | (here.before > answers.time_ms)
    others = dense & ~first & (before_it.before > answers.target_ms)
    return np.where(none, ~first & (here.before > answers.target_ms), exactly | others).astype(np.bool_)


def timestamp_error(answers: TimestampAnswers, dense: Bools, here: Bracket, before_it: Bracket) -> Ints:
    """How far the answers lie outside brackets from observed end offsets, in milliseconds.

    The brackets are those of the record found (of the last record, where none was found) and of the one before it.
    """
    none, first = answers.offset < 0, answers.target_ms <= _FIRST_RECORD
    too_late = np.where(none | (here.before == ALWAYS), 0, answers.time_ms - here.before)
    its_time = np.where(none, answers.target_ms, answers.time_ms)
    too_early = np.where((here.after == NEVER) | (none & first), 0, here.after - its_time)
    bounded = dense & ~first & ~none & (before_it.after > NEVER)  # the record before it is older than the target time
    others = np.where(bounded, before_it.after - answers.target_ms, 0)
    return np.maximum(np.maximum(too_late, too_early), np.maximum(others, 0))


def points_from(answers: TimestampAnswers, dense: Bools) -> tuple[Points, Points]:
    """The points that answers imply; the offset is ALWAYS where there is none.

    The record found was written at its timestamp, all after it no earlier, and all before it before the target time. The
    last does not hold where offsets have gaps: a record deleted there may have been written later. Nor does it hold for a
    query of the first record, whose target time is before all records; but any read from before it returns that record.
    """
    none, first = answers.offset < 0, answers.target_ms <= _FIRST_RECORD
    of_all = np.ones(len(answers), dtype=bool)
    offset = np.where(none, answers.end, np.where(first, 0, answers.offset))
    after = np.where(none, NEVER, answers.time_ms)
    before = np.where(none | (dense & ~first), answers.target_ms, ALWAYS)
    found = Points(np.where(none & first, ALWAYS, offset), after, before, of_all)
    exact = Points(
        np.where(none, ALWAYS, answers.offset + 1),
        answers.time_ms,
        answers.time_ms,
        of_all,
    )
    return found, exact
