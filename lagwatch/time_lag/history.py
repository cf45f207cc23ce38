"""The points of every partition of a cluster: ends seen and answers of brokers in, time lags and questions out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lagwatch.columns import find
from lagwatch.queries import TimestampAnswers
from lagwatch.time_lag.bracket import ALWAYS, NEVER, Bools, Bracket, Ints, Points
from lagwatch.time_lag.estimate import NOTHING_UNREAD, TimeLag, lag_from
from lagwatch.time_lag.older_points import POINT, OlderPoints
from lagwatch.time_lag.timestamp_queries import Asked, WantedTimestamps, contradiction, learnt, most_needed, points_from
from lagwatch.windows.keyed_rows import KeyedRows, RowColumn

NEWEST = 4  # points every partition has besides its last end, oldest overwritten first
_COLUMNS = {
    "end": RowColumn(None, np.int64),  # the last end seen,
    "seen": RowColumn(None, np.int64),  # when it was last seen, at the earliest,
    "since": RowColumn(None, np.int64),  # and when first, at the latest
    "offset": RowColumn(NEWEST, np.int64, ALWAYS),
    "after": RowColumn(NEWEST, np.int64, NEVER),
    "before": RowColumn(NEWEST, np.int64, ALWAYS),
    "from_broker": RowColumn(NEWEST, np.bool_),
    "next": RowColumn(None, np.uint8),  # where the next of these goes
    "stray_ms": RowColumn(None, np.int32),  # how far records' own times were found to be off
    "skewed_ms": RowColumn(None, np.int64, NEVER),  # when they were found to be nonsense
    "asked_ms": RowColumn(None, np.int64),
    "asked_times": RowColumn(None, np.int32),
    "asked_in_vain": RowColumn(None, np.uint8),
}
SCALARS = [name for name, kind in _COLUMNS.items() if kind.slots is None]
_FORGIVEN_AFTER_MS = 86_400_000  # then a skewed partition is asked again: clocks get mended
_BEHIND_POLLS = 2  # whoever is further behind needs more than the newest points


class EndHistory:
    """Keeps what brackets the time of every record of a cluster that a group might yet read.

    Partitions go by keys the caller makes; a topic that is created again must get others. Each key comes at most once in
    a call, but for `lag_of` and `next_queries`, whose rows are groups' partitions. Times are milliseconds on one clock,
    the one that records' own times are on as well as may be; when it was set, `shift` before the next `observe`.
    `slack_ms` is how far a record's own time may be from when it came into the log without anybody being told: bounds
    are that much wider. Beyond `tolerance_ms` a partition counts as skewed and is judged by ends seen alone.
    Memory: about 180 bytes a partition, and `budget_bytes` for those on which somebody lags.
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
        """What it all takes in memory."""
        return self.table.nbytes + self.older.table.nbytes

    def observe(self, keys: Ints, end: Ints, sent_ms: Ints | int, heard_ms: Ints | int) -> Ints:
        """Take in ends, each read by its broker between `sent_ms` and `heard_ms`. Returns the keys whose end went down.

        Where it did the log was cut off: points past the new end are dropped and the others stay.
        """
        sent = np.broadcast_to(np.asarray(sent_ms, np.int64), keys.shape)
        heard = np.broadcast_to(np.asarray(heard_ms, np.int64), keys.shape)
        self._add(keys, end, sent, heard)
        row, _ = self.table.find(keys)
        before = self.table["end"][row]
        grown, cut, still = end > before, end < before, end == before
        self._push(keys[grown], row[grown], self._last_ends(row[grown]))
        self._drop_above(keys[cut], row[cut], end[cut])
        moved = ~still
        self.table["end"][row[moved]] = end[moved]
        self.table["since"][row[moved]] = heard[moved]
        self.table["seen"][row] = np.where(still, np.maximum(self.table["seen"][row], sent), sent)
        return keys[cut]

    def observe_timestamps(self, answers: TimestampAnswers, now_ms: int, *, dense: Bools | None = None) -> None:
        """Take in brokers' answers. `dense` is false for topics whose offsets may have holes: compacted ones.

        An answer that contradicts the ends seen by more than the tolerance is not believed: the partition is skewed.
        """
        row, found = self.table.find(answers.key)
        if not found.any():
            return
        keep = found & ((answers.offset < 0) | (answers.time_ms >= 0)) & ~self._skewed(row, now_ms)
        no_holes = np.ones(len(answers), dtype=bool) if dense is None else dense
        answers, row, no_holes = answers.take(keep), row[keep], no_holes[keep]
        record = np.where(answers.offset < 0, answers.end - 1, answers.offset)
        off = self._contradiction(answers, record, no_holes)
        skewed = off > self.tolerance_ms
        self.table["skewed_ms"][row[skewed]] = now_ms
        self._drop_broker_points(answers.key[skewed], row[skewed])
        keep = ~skewed
        answers, row, record, no_holes, off = (
            answers.take(keep),
            row[keep],
            record[keep],
            no_holes[keep],
            off[keep],
        )
        # One late record must not widen the bounds for ever.
        self.table["stray_ms"][row] = np.maximum(off, self.table["stray_ms"][row] // 8 * 7)
        here, before_it = self._bracket(answers.key, record), self._bracket(answers.key, record - 1)
        news = learnt(answers, no_holes, here, before_it)
        self.table["asked_in_vain"][row[news]] = 0
        for points in points_from(answers, no_holes):
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
        self, keys: Ints, committed: Ints, lag: TimeLag, now_ms: int, *, poll_ms: int, most: int
    ) -> WantedTimestamps:
        """What to ask brokers next, given the rows and the answer of `lag_of`; makes room for those who are behind."""
        row, found = self.table.find(keys)
        at = np.flatnonzero(found & (lag.source != NOTHING_UNREAD))
        keys, committed, row, lag = keys[at], committed[at], row[at], lag.take(at)
        self._make_room(keys, committed, lag, poll_ms)
        asked = Asked(
            self.table["asked_ms"][row],
            self.table["asked_times"][row],
            self.table["asked_in_vain"][row].astype(np.int32),
        )
        chosen, ask_ms = most_needed(keys, lag, asked, now_ms, poll_ms, most)
        self.table["asked_ms"][row[chosen]] = now_ms
        self.table["asked_times"][row[chosen]] += 1
        self.table["asked_in_vain"][row[chosen]] = np.minimum(asked.in_vain[chosen], 100) + 1  # until an answer comes
        return WantedTimestamps(keys[chosen], ask_ms, self.table["end"][row[chosen]])

    def drop(self, keys: Ints) -> None:
        """Forget partitions that are gone."""
        row, found = self.table.find(keys)
        self.table.remove(row[found])
        self.older.drop(keys)

    def keep(self, keys: Ints) -> None:
        """Forget all partitions but these."""
        _, kept = find(np.sort(keys), self.table.keys)
        if not kept.all():
            self.drop(self.table.keys[~kept])

    def shift(self, by_ms: int) -> None:
        """The clock was set by this much: what was seen by it moves along, records' own times do not."""
        for name in ("seen", "since", "asked_ms", "skewed_ms"):
            self.table[name][:] += by_ms
        seen = ~self.table["from_broker"]
        for name, nothing in (("after", NEVER), ("before", ALWAYS)):
            column = self.table[name]
            column[seen & (column != nothing)] += by_ms
        self.older.shift(by_ms)

    def _add(self, keys: Ints, end: Ints, sent: Ints, heard: Ints) -> None:
        _, found = self.table.find(keys)
        new = ~found
        if not new.any():
            return
        self.table.add(keys[new])
        row, _ = self.table.find(keys[new])
        self.table["end"][row], self.table["seen"][row], self.table["since"][row] = end[new], sent[new], heard[new]

    def _skewed(self, row: npt.NDArray[np.int32], now_ms: int) -> Bools:
        skewed: Bools = self.table["skewed_ms"][row] > now_ms - _FORGIVEN_AFTER_MS
        return skewed

    def _last_ends(self, row: npt.NDArray[np.int32]) -> Points:
        end, seen, since = (self.table[name][row] for name in ("end", "seen", "since"))
        return Points(end, seen, since, np.zeros(len(row), dtype=bool))

    def _newest(self, row: npt.NDArray[np.int32]) -> Iterator[Points]:
        """The last end and the newest points of rows, one slot after the other."""
        yield self._last_ends(row)
        for slot in range(NEWEST):
            yield Points(*(self.table[name][slot, row] for name in POINT))

    def _bracket(self, keys: Ints, offset: Ints, *, only_seen: bool = False) -> Bracket:
        bracket = Bracket.of(offset)
        for table, points_of in ((self.table, self._newest), (self.older.table, self.older.points_of)):
            row, found = table.find(keys)
            at = np.flatnonzero(found)
            if len(at):
                part = bracket.take(at)
                part.narrow(points.only_seen() if only_seen else points for points in points_of(row[at]))
                bracket.put(at, part)
        return bracket

    def _contradiction(self, answers: TimestampAnswers, record: Ints, dense: Bools) -> Ints:
        """How far outside of what ends seen allow records' own times are."""
        here = self._bracket(answers.key, record, only_seen=True)
        before_it = self._bracket(answers.key, record - 1, only_seen=True)
        return contradiction(answers, dense, here, before_it)

    def _push(self, keys: Ints, row: npt.NDArray[np.int32], points: Points) -> None:
        """Put points among the newest; what that displaces goes to the older ones."""
        slot = self.table["next"][row]
        self.older.push(keys, Points(*(self.table[name][slot, row] for name in POINT)))
        for name in POINT:
            self.table[name][slot, row] = getattr(points, name)
        self.table["next"][row] = (slot + 1) % NEWEST

    def _push_broker_points(self, keys: Ints, row: npt.NDArray[np.int32], points: Points) -> None:
        """Answers are mostly about old records: they would only displace the newest points."""
        _, followed = self.older.table.find(keys)
        self.older.push(keys, points)
        self._push(keys[~followed], row[~followed], points.take(~followed))

    def _drop_above(self, keys: Ints, row: npt.NDArray[np.int32], end: Ints) -> None:
        self._empty(row, self.table["offset"][:, row] > end)
        self.older.drop_above(keys, end)

    def _drop_broker_points(self, keys: Ints, row: npt.NDArray[np.int32]) -> None:
        self._empty(row, self.table["from_broker"][:, row])
        self.older.drop_probed(keys)

    def _empty(self, row: npt.NDArray[np.int32], gone: Bools) -> None:
        for name in POINT:
            column = self.table[name][:, row]
            column[gone] = _COLUMNS[name].empty
            self.table[name][:, row] = column

    def _make_room(self, keys: Ints, committed: Ints, lag: TimeLag, poll_ms: int) -> None:
        behind = ~lag.known | (lag.seconds * 1000 > _BEHIND_POLLS * poll_ms)
        order = np.lexsort((committed[behind], keys[behind]))
        keys, committed, guess = keys[behind][order], committed[behind][order], lag.guess_ms[behind][order]
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.intp)
        oldest_first = first[np.argsort(guess[first], kind="stable")]
        self.older.follow(keys[oldest_first], committed[oldest_first])
