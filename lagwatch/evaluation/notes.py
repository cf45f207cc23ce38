"""What each poll teaches of a row beside its commits, kept in a few bytes with its window.

- `moved`: when its offset was last seen to move, in seconds; 0 before that
- `gap`: the longest recent gap between two moves, in seconds; 0 before two were seen
- `lost`: since when its offset is below the log start; 0 when it is not
- `remainder`: what it leaves unread each time it has read all there is
- `proved`: how many offsets behind the one it stands at are known to hold nothing to read
- `rule`: what decided its last verdict
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lagwatch.evaluation.poll_rows import LagRows
from lagwatch.queries import TailContent
from lagwatch.verdict.lagwatch_rules import LARGEST_REMAINDER, learned_remainder
from lagwatch.windows import WindowStore
from lagwatch.windows.insert import NO_RULE

# After a longer silence of the agent itself, or a few polls that did not come, a gap between moves says nothing of the
# consumer.
_HOLE_MS = 90_000
_HOLE_POLLS = 3
_FORGET = 0.8  # with each move an older, longer gap counts a fifth less
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
    """Take in a poll whose rows stand at `at` in the store, -1 for none; `last_ms` is the time of the poll before,
    and `poll_ms` how long after it the next one is due.
    """
    seen = np.flatnonzero((at >= 0) & rows.fresh)
    row, now_s = at[seen], now_ms // 1000
    # A row that is new to us did not move: it was found so.
    moves = (store.note("rule")[row] != NO_RULE) & (rows.still_ms[seen] == 0)
    moved, gap, lost = store.note("moved"), store.note("gap"), store.note("lost")
    told = moves & (moved[row] > 0) & (now_ms - last_ms <= max(_HOLE_MS, _HOLE_POLLS * poll_ms))
    longest = np.maximum(now_s - moved[row].astype(np.int64), (gap[row] * _FORGET).astype(np.int64))
    gap[row[told]] = np.clip(longest[told], 1, _LONGEST_GAP_S)
    moved[row[moves]] = now_s
    lost[row] = np.where(rows.is_lost[seen], np.where(lost[row] > 0, lost[row], now_s), 0)
    known = rows.lag.known[seen]
    store.measure(row[known], rows.lag.values[seen[known]])
    _learn_remainders(store, row[moves].astype(np.intp))
    _note_tail(store, row, rows.lag.values[seen], rows.tail[seen], moved=rows.still_ms[seen] == 0)


def _learn_remainders(store: WindowStore, rows: npt.NDArray[np.intp]) -> None:
    windows, remainder = store.windows(), store.note("remainder")
    few = rows[windows.lag[rows, -1] <= LARGEST_REMAINDER]  # nobody else can have one, or lose one
    for some in np.split(few, range(_AT_ONCE, len(few), _AT_ONCE)):
        remainder[some] = learned_remainder(windows.take(some), remainder[some].astype(np.int64))


def _note_tail(
    store: WindowStore,
    row: npt.NDArray[np.int32],
    lag: npt.NDArray[np.int64],
    tail: npt.NDArray[np.int8],
    *,
    moved: npt.NDArray[np.bool_],
) -> None:
    """Proof is of one offset and ends with a move; that there are records refutes what moves had taught."""
    remainder, proved = store.note("remainder"), store.note("proved")
    proved[row[moved]] = 0
    nothing = (tail == TailContent.NOTHING) & (lag > 0) & (lag <= LARGEST_REMAINDER)
    proved[row[nothing]] = lag[nothing]
    refuted = (tail == TailContent.RECORDS) & (lag > 0)
    proved[row[refuted & (proved[row] >= lag)]] = 0
    remainder[row[refuted & (remainder[row] >= lag)]] = 0
