"""Which partitions to ask for which time, so that the widest brackets become narrow first. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.queries import TimestampAnswers
from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Bracket, Ints, Points
from lagwatch.time_lag.estimate import NOTHING_UNREAD, TimeLag

_OF_THE_LAG = 0.02  # half a bracket may be this share of the lag
_OF_A_POLL = 0.75  # or this share of a poll: two polls are half a poll apart from their middle, and seldom on time
_FIRST_RECORD = 0  # the time that asks for the first record there is
_BISECT_EVERY = 3
_MOST_IN_VAIN = 4  # doublings of the pause between questions
_MOST_WAITED = 100.0  # polls


@dataclass(frozen=True, slots=True)
class WantedTimestamps:
    """Questions: the first record of partition `key` at or after `ask_ms`? `end` is its end known before it is asked."""

    key: Ints
    ask_ms: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of partitions before: when last, how often, and how often in a row without learning anything."""

    at_ms: Ints
    times: npt.NDArray[np.int32]
    in_vain: npt.NDArray[np.int32]


def most_needed(
    keys: Ints, lag: TimeLag, asked: Asked, now_ms: int, poll_ms: int, most: int
) -> tuple[npt.NDArray[np.intp], Ints]:
    """Rows to ask about and for which time: at most one of a partition, at most `most` in all.

    A bracket twice as wide counts like a poll more of waiting, so nobody waits for ever. A partition that does not answer,
    or whose answers teach nothing (a group stands in a hole of a compacted topic), is asked more and more rarely.
    """
    need = _need(lag, now_ms, poll_ms)
    waited = np.minimum((now_ms - asked.at_ms) / max(poll_ms, 1), _MOST_WAITED)
    pause = 2.0 ** np.minimum(asked.in_vain, _MOST_IN_VAIN) - 0.5
    rows = np.flatnonzero((need > 1) & ~lag.skewed & (lag.source != NOTHING_UNREAD) & (waited >= pause))
    rows = rows[np.lexsort((-need[rows], keys[rows]))]
    rows = rows[np.r_[True, keys[rows][1:] != keys[rows][:-1]]] if len(rows) else rows
    score = np.log2(need[rows]) + waited[rows]
    rows = np.sort(rows[np.argsort(-score, kind="stable")[:most]])
    return rows, _time_to_ask(lag, rows, asked, _allowed(lag, now_ms, poll_ms)[rows])


def _allowed(lag: TimeLag, now_ms: int, poll_ms: int) -> npt.NDArray[np.float64]:
    allowed: npt.NDArray[np.float64] = np.maximum(_OF_A_POLL * poll_ms, _OF_THE_LAG * (now_ms - lag.guess_ms))
    return allowed


def _need(lag: TimeLag, now_ms: int, poll_ms: int) -> npt.NDArray[np.float64]:
    """Half a bracket in shares of what it may be; without any lower bound, as if it went back to 1970."""
    after = np.where(lag.after_ms > NEVER, lag.after_ms, 0)
    need: npt.NDArray[np.float64] = (lag.before_ms - after) / 2 / _allowed(lag, now_ms, poll_ms)
    return need


def _time_to_ask(lag: TimeLag, rows: npt.NDArray[np.intp], asked: Asked, allowed: npt.NDArray[np.float64]) -> Ints:
    """The first record first; then cut the wider side off just beside the guess, and every third time in the middle.

    If the guess is good two cuts leave it alone in a narrow bracket; if it is not, the bracket is halved often enough.
    """
    after, before, guess = lag.after_ms[rows], lag.before_ms[rows], lag.guess_ms[rows]
    margin = (0.9 * allowed).astype(np.int64)
    beside = np.where(guess - after > before - guess, guess - margin, guess + margin)
    bisected = asked.times[rows] % _BISECT_EVERY == _BISECT_EVERY - 1
    ask = np.where(bisected, after + (before - after) // 2, beside)
    ask = np.clip(ask, after + 1, np.maximum(before, after + 1))
    return np.where(after > NEVER, ask, _FIRST_RECORD)


def learnt(answers: TimestampAnswers, dense: Bools, here: Bracket, before_it: Bracket) -> Bools:
    """Whether answers tell more than the brackets did of the record they name, or of the one before it."""
    none, first = answers.offset < 0, answers.ask_ms <= _FIRST_RECORD
    exactly = (here.after < answers.time_ms) | (here.before > answers.time_ms)
    others = dense & ~first & (before_it.before > answers.ask_ms)
    return np.where(none, ~first & (here.before > answers.ask_ms), exactly | others).astype(np.bool_)


def contradiction(answers: TimestampAnswers, dense: Bools, here: Bracket, before_it: Bracket) -> Ints:
    """How far outside of brackets made of ends seen the times are that answers tell, in milliseconds.

    The brackets are those of the record found (of the last one, where none was) and of the one before it.
    """
    none, first = answers.offset < 0, answers.ask_ms <= _FIRST_RECORD
    too_late = np.where(none | (here.before == ALWAYS), 0, answers.time_ms - here.before)
    its_time = np.where(none, answers.ask_ms, answers.time_ms)
    too_early = np.where((here.after == NEVER) | (none & first), 0, here.after - its_time)
    told = dense & ~first & ~none & (before_it.after > NEVER)  # that it was written before the time asked for
    others = np.where(told, before_it.after - answers.ask_ms, 0)
    return np.maximum(np.maximum(too_late, too_early), np.maximum(others, 0))


def points_from(answers: TimestampAnswers, dense: Bools) -> tuple[Points, Points]:
    """What answers say as points, none (an offset of ALWAYS) where there is nothing to say.

    The record found was written at its own time, all after it no earlier, and all before it earlier than asked. The last
    is not said where offsets have holes: what was deleted there may have been written later. Nor of the first record,
    which was asked for by a time before all times; but whatever is read from anywhere before it is that record.
    """
    none, first = answers.offset < 0, answers.ask_ms <= _FIRST_RECORD
    of_all = np.ones(len(answers), dtype=bool)
    offset = np.where(none, answers.end, np.where(first, 0, answers.offset))
    after = np.where(none, NEVER, answers.time_ms)
    before = np.where(none | (dense & ~first), answers.ask_ms, ALWAYS)
    found = Points(np.where(none & first, ALWAYS, offset), after, before, of_all)
    exact = Points(
        np.where(none, ALWAYS, answers.offset + 1),
        answers.time_ms,
        answers.time_ms,
        of_all,
    )
    return found, exact
