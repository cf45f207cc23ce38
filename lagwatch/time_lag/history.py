"""Stores the points of every partition of a cluster, estimates time lag from them and selects the next timestamp queries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lagwatch.broker_queries import TimestampAnswers
from lagwatch.columns import find
from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Bracket, Ints, Points
from lagwatch.time_lag.estimate import NOTHING_UNREAD, TimeLag, lag_from
from lagwatch.time_lag.older_points import POINT, OlderPoints
from lagwatch.time_lag.timestamp_queries import (
    PastQueries,
    SelectedTimestamps,
    is_informative,
    points_from,
    select_queries,
    timestamp_error,
)
from lagwatch.windows.keyed_rows import KeyedRows, RowColumn

NEWEST = 4  # points of every partition besides its last end offset; the oldest is overwritten first
_COLUMNS = {  # the names are stored in checkpoints
    "end": RowColumn(None, np.int64),  # the last end offset,
    "last_observed": RowColumn(None, np.int64),  # the earliest time it can have been last observed,
    "since": RowColumn(None, np.int64),  # and the latest time it can have been first observed
    "offset": RowColumn(NEWEST, np.int64, ALWAYS),
    "after": RowColumn(NEWEST, np.int64, NEVER),
    "before": RowColumn(NEWEST, np.int64, ALWAYS),
    "from_broker": RowColumn(NEWEST, np.bool_),
    "next": RowColumn(None, np.uint8),  # the slot of the next point
    "stray_ms": RowColumn(None, np.int32),  # measured error of record timestamps
    "skewed_ms": RowColumn(None, np.int64, NEVER),  # when record timestamps were found to be unusable
    "queried_ms": RowColumn(None, np.int64),  # the last query,
    "query_count": RowColumn(None, np.int32),  # the number of queries,
    "fruitless_queries": RowColumn(None, np.uint8),  # and how many in a row brought nothing new
}
SCALARS = [name for name, kind in _COLUMNS.items() if kind.slots is None]
_SKEW_RETRY_MS = 86_400_000  # then a skewed partition is queried again: its clocks may be fixed
_BEHIND_POLLS = 2  # a group further behind needs more than the newest points


class EndHistory:
    """The points that bracket the write time of every unread record of a cluster.

    The caller makes the partition keys; a recreated topic must get new ones. Each key occurs at most once per call, except
    in `lag_of` and `next_queries`, whose rows are partitions of groups. Times are milliseconds on one clock, which should
    match the clock of the record timestamps; after it was set, call `shift` before the next `observe`.
    `slack_ms` is how far a record timestamp may be from the append time without notice: bounds are that much wider. A
    partition with a larger error than `tolerance_ms` is skewed, and only its observed end offsets count.
    Memory: about 180 bytes per partition, plus up to `budget_bytes` for partitions with lagging groups.
    """

    def __init__(
        self, *, slack_ms: int = 1000, tolerance_ms: int = 60_000, budget_bytes: int = 64 * 1024 * 1024
    ) -> None:
        self.slack_ms = slack_ms
        self.tolerance_ms = tolerance_ms
        self.budget_bytes = budget_bytes
        self.table = KeyedRows(_COLUMNS)
        self.older = OlderPoints(budget_bytes)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self.table.nbytes + self.older.table.nbytes

    def observe(self, keys: Ints, end: Ints, sent_ms: Ints | int, received_ms: Ints | int) -> Ints:
        """Add end offsets, each read by its broker between `sent_ms` and `received_ms`. Returns keys whose end decreased.

        There the log was truncated: points above the new end are dropped, the others stay.
        """
        sent = np.broadcast_to(np.asarray(sent_ms, np.int64), keys.shape)
        received = np.broadcast_to(np.asarray(received_ms, np.int64), keys.shape)
        self._add(keys, end, sent, received)
        row, _ = self.table.find(keys)
        before = self.table["end"][row]
        grown, cut, still = end > before, end < before, end == before
        self._push(keys[grown], row[grown], self._last_ends(row[grown]))
        self._drop_above(keys[cut], row[cut], end[cut])
        moved = ~still
        self.table["end"][row[moved]] = end[moved]
        self.table["since"][row[moved]] = received[moved]
        self.table["last_observed"][row] = np.where(still, np.maximum(self.table["last_observed"][row], sent), sent)
        return keys[cut]

    def observe_timestamps(self, answers: TimestampAnswers, now_ms: int, *, dense: Bools | None = None) -> None:
        """Add the answers to timestamp queries. `dense` is false for compacted topics, whose offsets may have gaps.

        An answer that contradicts the observed end offsets by more than the tolerance is discarded: the partition is skewed.
        """
        row, found = self.table.find(answers.key)
        if not found.any():
            return
        keep = found & ((answers.offset < 0) | (answers.time_ms >= 0)) & ~self._skewed(row, now_ms)
        no_gaps = np.ones(len(answers), dtype=bool) if dense is None else dense
        answers, row, no_gaps = answers.take(keep), row[keep], no_gaps[keep]
        record = np.where(answers.offset < 0, answers.end - 1, answers.offset)
        error = self._timestamp_error(answers, record, no_gaps)
        skewed = error > self.tolerance_ms
        self.table["skewed_ms"][row[skewed]] = now_ms
        self._drop_broker_points(answers.key[skewed], row[skewed])
        keep = ~skewed
        answers, row, record, no_gaps, error = (
            answers.take(keep),
            row[keep],
            record[keep],
            no_gaps[keep],
            error[keep],
        )
        # Decays, so that one late record does not widen the bounds for ever.
        self.table["stray_ms"][row] = np.maximum(error, self.table["stray_ms"][row] // 8 * 7)
        here, before_it = self._bracket(answers.key, record), self._bracket(answers.key, record - 1)
        informative = is_informative(answers, no_gaps, here, before_it)
        self.table["fruitless_queries"][row[informative]] = 0
        for points in points_from(answers, no_gaps):
            useful = points.offset < ALWAYS
            self._push_broker_points(answers.key[useful], row[useful], points.take(useful))

    def lag_of(self, keys: Ints, committed: Ints, end: Ints, now_ms: int) -> TimeLag:
        """The age of the first record at or after `committed`, which must not be below the log start."""
        row, found = self.table.find(keys)
        bracket = self._bracket(keys, committed)
        if not len(self.table):
            nothing = np.zeros(len(keys), dtype=bool)
            return lag_from(bracket, end, now_ms, found=nothing, widen_ms=np.zeros(len(keys), np.int64), skewed=nothing)
        widen = self.slack_ms + np.where(found, self.table["stray_ms"][row], 0).astype(np.int64)
        return lag_from(bracket, end, now_ms, found=found, widen_ms=widen, skewed=found & self._skewed(row, now_ms))

    def next_queries(
        self, keys: Ints, committed: Ints, lag: TimeLag, now_ms: int, *, poll_ms: int, limit: int
    ) -> SelectedTimestamps:
        """The next timestamp queries for these rows and their `lag_of`; also reserves memory for lagging partitions."""
        row, found = self.table.find(keys)
        at = np.flatnonzero(found & (lag.source != NOTHING_UNREAD))
        keys, committed, row, lag = keys[at], committed[at], row[at], lag.take(at)
        self._make_room(keys, committed, lag, poll_ms)
        past = PastQueries(
            self.table["queried_ms"][row],
            self.table["query_count"][row],
            self.table["fruitless_queries"][row].astype(np.int32),
        )
        chosen, target_ms = select_queries(keys, lag, past, now_ms, poll_ms, limit)
        self.table["queried_ms"][row[chosen]] = now_ms
        self.table["query_count"][row[chosen]] += 1
        self.table["fruitless_queries"][row[chosen]] = np.minimum(past.fruitless[chosen], 100) + 1  # reset by an answer
        return SelectedTimestamps(keys[chosen], target_ms, self.table["end"][row[chosen]])

    def drop(self, keys: Ints) -> None:
        """Remove deleted partitions."""
        row, found = self.table.find(keys)
        self.table.remove(row[found])
        self.older.drop(keys)

    def keep(self, keys: Ints) -> None:
        """Remove all partitions except these."""
        _, kept = find(np.sort(keys), self.table.keys)
        if not kept.all():
            self.drop(self.table.keys[~kept])

    def shift(self, by_ms: int) -> None:
        """Apply a step of the clock: observation times shift by it, record timestamps do not."""
        for name in ("last_observed", "since", "queried_ms", "skewed_ms"):
            self.table[name][:] += by_ms
        observed = ~self.table["from_broker"]
        for name, nothing in (("after", NEVER), ("before", ALWAYS)):
            column = self.table[name]
            column[observed & (column != nothing)] += by_ms
        self.older.shift(by_ms)

    def _add(self, keys: Ints, end: Ints, sent: Ints, received: Ints) -> None:
        _, found = self.table.find(keys)
        new = ~found
        if not new.any():
            return
        self.table.add(keys[new])
        row, _ = self.table.find(keys[new])
        self.table["end"][row], self.table["last_observed"][row], self.table["since"][row] = (
            end[new],
            sent[new],
            received[new],
        )

    def _skewed(self, row: npt.NDArray[np.int32], now_ms: int) -> Bools:
        skewed: Bools = self.table["skewed_ms"][row] > now_ms - _SKEW_RETRY_MS
        return skewed

    def _last_ends(self, row: npt.NDArray[np.int32]) -> Points:
        end, last_observed, since = (self.table[name][row] for name in ("end", "last_observed", "since"))
        return Points(end, last_observed, since, np.zeros(len(row), dtype=bool))

    def _newest(self, row: npt.NDArray[np.int32]) -> Iterator[Points]:
        """The last end offset and the newest points of rows, slot by slot."""
        yield self._last_ends(row)
        for slot in range(NEWEST):
            yield Points(*(self.table[name][slot, row] for name in POINT))

    def _bracket(self, keys: Ints, offset: Ints, *, only_observed: bool = False) -> Bracket:
        bracket = Bracket.of(offset)
        for table, points_of in ((self.table, self._newest), (self.older.table, self.older.points_of)):
            row, found = table.find(keys)
            at = np.flatnonzero(found)
            if len(at):
                part = bracket.take(at)
                part.narrow(points.only_observed() if only_observed else points for points in points_of(row[at]))
                bracket.put(at, part)
        return bracket

    def _timestamp_error(self, answers: TimestampAnswers, record: Ints, dense: Bools) -> Ints:
        """How far record timestamps lie outside the brackets from observed end offsets."""
        here = self._bracket(answers.key, record, only_observed=True)
        before_it = self._bracket(answers.key, record - 1, only_observed=True)
        return timestamp_error(answers, dense, here, before_it)

    def _push(self, keys: Ints, row: npt.NDArray[np.int32], points: Points) -> None:
        """Add points to the newest; the displaced ones move to the older points."""
        slot = self.table["next"][row]
        self.older.push(keys, Points(*(self.table[name][slot, row] for name in POINT)))
        for name in POINT:
            self.table[name][slot, row] = getattr(points, name)
        self.table["next"][row] = (slot + 1) % NEWEST

    def _push_broker_points(self, keys: Ints, row: npt.NDArray[np.int32], points: Points) -> None:
        """Add points from answers to the older points where possible: they are mostly old and would displace the newest."""
        _, followed = self.older.table.find(keys)
        self.older.push(keys, points)
        self._push(keys[~followed], row[~followed], points.take(~followed))

    def _drop_above(self, keys: Ints, row: npt.NDArray[np.int32], end: Ints) -> None:
        self._clear(row, self.table["offset"][:, row] > end)
        self.older.drop_above(keys, end)

    def _drop_broker_points(self, keys: Ints, row: npt.NDArray[np.int32]) -> None:
        self._clear(row, self.table["from_broker"][:, row])
        self.older.drop_broker_points(keys)

    def _clear(self, row: npt.NDArray[np.int32], dropped: Bools) -> None:
        for name in POINT:
            column = self.table[name][:, row]
            column[dropped] = _COLUMNS[name].empty
            self.table[name][:, row] = column

    def _make_room(self, keys: Ints, committed: Ints, lag: TimeLag, poll_ms: int) -> None:
        behind = ~lag.known | (lag.seconds * 1000 > _BEHIND_POLLS * poll_ms)
        order = np.lexsort((committed[behind], keys[behind]))
        keys, committed, guess = keys[behind][order], committed[behind][order], lag.guess_ms[behind][order]
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.intp)
        oldest_first = first[np.argsort(guess[first], kind="stable")]
        self.older.follow(keys[oldest_first], committed[oldest_first])
