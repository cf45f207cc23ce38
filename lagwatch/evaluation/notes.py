"""Updates the notes of each row: a few bytes beside its window that polls provide.

- `moved`: when its offset last moved between two polls, in seconds; 0 before the first time
- `gap`: the longest recent gap between two moves, in seconds; 0 before the second move
- `lost`: since when its offset is below the log start; 0 if it is not
- `learned_markers`: the lag it keeps each time it has read everything
- `proved`: how many offsets after the committed one are proven to hold no records
- `abandoned`: whether its group abandoned the topic
- `rule`: the rule that decided its last verdict
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lagwatch.broker_queries import TailContent
from lagwatch.evaluation.poll_rows import LagRows
from lagwatch.verdict.lagwatch_rules import MAX_MARKERS, learned_markers
from lagwatch.windows import WindowStore
from lagwatch.windows.insert import NO_RULE

# After a longer pause of the agent itself, or several missed polls, a gap between moves says nothing about the consumer.
_PAUSE_MS = 90_000
_PAUSE_POLLS = 3
_GAP_DECAY = 0.8  # with each move an older, longer gap counts a fifth less
_LONGEST_GAP_S = 65_535
_AT_ONCE = 10_000


def note_poll(
    store: WindowStore,
    rows: LagRows,
    at: npt.NDArray[np.int32],
    now_ms: int,
    last_ms: int,
    poll_ms: int = 0,
) -> None:
    """Update the notes with a poll. `at` is the store row of each of its rows, -1 if it has none.

    `last_ms` is the time of the previous poll, `poll_ms` the poll interval.
    """
    seen = np.flatnonzero((at >= 0) & rows.fresh)
    row, now_s = at[seen], now_ms // 1000
    # The first poll of a row shows no move.
    moves = (store.note("rule")[row] != NO_RULE) & (rows.since_moved_ms[seen] == 0)
    moved, gap, lost = store.note("moved"), store.note("gap"), store.note("lost")
    measured = moves & (moved[row] > 0) & (now_ms - last_ms <= max(_PAUSE_MS, _PAUSE_POLLS * poll_ms))
    longest = np.maximum(now_s - moved[row].astype(np.int64), (gap[row] * _GAP_DECAY).astype(np.int64))
    gap[row[measured]] = np.clip(longest[measured], 1, _LONGEST_GAP_S)
    moved[row[moves]] = now_s
    lost[row] = np.where(rows.is_lost[seen], np.where(lost[row] > 0, lost[row], now_s), 0)
    known = rows.lag.known[seen]
    store.measure(row[known], rows.lag.values[seen[known]])
    _learn_markers(store, row[moves].astype(np.intp))
    _note_tail(store, row, rows.lag.values[seen], rows.tail[seen], moved=rows.since_moved_ms[seen] == 0)


def note_abandoned(
    store: WindowStore,
    at: npt.NDArray[np.int32],
    abandoned: npt.NDArray[np.bool_],
    *,
    rebalancing: npt.NDArray[np.bool_],
) -> None:
    """Update `abandoned` with a poll; `rebalancing` marks the rows of groups that rebalance.

    During a rebalance some or all partitions are unassigned: what was abandoned before stays abandoned.
    """
    now = np.zeros(len(rebalancing), dtype=bool)
    now[at[at >= 0]] = abandoned[at >= 0]
    store.note("abandoned")[:] = np.where(rebalancing, store.note("abandoned"), now)


def _learn_markers(store: WindowStore, rows: npt.NDArray[np.intp]) -> None:
    windows, learned = store.windows(), store.note("learned_markers")
    few = rows[windows.lag[rows, -1] <= MAX_MARKERS]  # rows with a larger lag have none to learn or lose
    for some in np.split(few, range(_AT_ONCE, len(few), _AT_ONCE)):
        learned[some] = learned_markers(windows.take(some), learned[some].astype(np.int64))


def _note_tail(
    store: WindowStore,
    row: npt.NDArray[np.int32],
    lag: npt.NDArray[np.int64],
    tail: npt.NDArray[np.int8],
    *,
    moved: npt.NDArray[np.bool_],
) -> None:
    """Update `proved`, which holds for one offset and ends with a move; records in the tail refute `learned_markers` too."""
    learned, proved = store.note("learned_markers"), store.note("proved")
    proved[row[moved]] = 0
    nothing = (tail == TailContent.NOTHING) & (lag > 0) & (lag <= MAX_MARKERS)
    proved[row[nothing]] = lag[nothing]
    refuted = (tail == TailContent.RECORDS) & (lag > 0)
    proved[row[refuted & (proved[row] >= lag)]] = 0
    learned[row[refuted & (learned[row] >= lag)]] = 0
