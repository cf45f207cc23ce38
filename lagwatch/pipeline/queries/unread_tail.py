"""Groups that stand a few offsets before an end: which of them have something left to read, and whom to ask that.

The marker that ends a transaction takes an offset no consumer reads, so a group that has read everything may keep a lag
of one for ever. Only the broker knows whether a message stands there. What it told is remembered for as long as anybody
stands so. It is not journalled: after a restart the verdicts that were tell it (see replay.py), or it is asked again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch, Masked, Texts, replace_columns
from lagwatch.clock import Moment
from lagwatch.columns import find, numbers_of, partition_keys, texts_of
from lagwatch.evaluation import Policies
from lagwatch.pipeline.queries.mailbox import LatestValue
from lagwatch.pipeline.state.partitions import PartitionEnds, PartitionState
from lagwatch.queries import TailAnswers, TailContent, TailQuery
from lagwatch.verdict.lagwatch_rules import LARGEST_REMAINDER
from lagwatch.verdict.policy import Extension
from lagwatch.verdict.status import Mode

MOST = 500  # questions of one poll
FOLLOWED = 4000  # rows: where more stand so near to an end, those with the least lag; markers leave one or two
RETRY_SECONDS = 60.0  # until what was not answered is asked again
TailQueries = LatestValue[TailQuery]


class TailPosition(NamedTuple):
    """Where a group stands: a partition by its key, its offset there, and the end."""

    key: int
    offset: int
    end: int


class UnreadTails:
    """Follows who stands just before the ends of one cluster's partitions."""

    def __init__(self, partitions: PartitionState) -> None:
        self.wanted = TailQueries()
        self._partitions = partitions
        self._ends: PartitionEnds | None = None  # of the poll before
        self._asked: dict[TailPosition, float] = {}  # when, on the monotonic clock; -inf before
        self._told: dict[TailPosition, TailContent] = {}

    def observe(self, lag: Batch, policies: Policies, now: Moment) -> Batch:
        """Returns the rows of a poll with `unread_tail`, as far as brokers answered; queues queries for the rest."""
        tail = np.full(len(lag), TailContent.UNKNOWN, np.int64)
        rows = standing(lag, policies)
        if len(rows) > FOLLOWED:
            nearest = np.argsort(numbers_of(lag.rows, "lag").values[rows], kind="stable")[:FOLLOWED]
            rows = rows[np.sort(nearest)]
        places = self._places(lag, rows)
        self._asked = {place: self._asked.get(place, -np.inf) for place in places}
        self._told = {place: told for place, told in self._told.items() if place in self._asked}
        tail[rows] = [self._told.get(place, TailContent.UNKNOWN) for place in places]
        # Only where the end did not move either: others will have read what came by the next poll.
        stays = self._is_idle(places) & ~numbers_of(lag.rows, "stale").values[rows]
        self._ask([place for place, stay in zip(places, stays.tolist(), strict=True) if stay], now)
        self._ends = self._partitions.ends()
        known = tail != TailContent.UNKNOWN
        return replace_columns(lag, {"unread_tail": Masked(tail, known)}) if known.any() else lag

    def observe_answers(self, answers: TailAnswers) -> None:
        """Take in what brokers told; it counts from the next poll on."""
        columns = (answers.key, answers.offset, answers.end, answers.content)
        for key, offset, end, left in zip(*(column.tolist() for column in columns), strict=True):
            place = TailPosition(key, offset, end)
            if place in self._asked:
                self._told[place] = TailContent(left)

    def _places(self, lag: Batch, rows: npt.NDArray[np.intp]) -> list[TailPosition]:
        topic = texts_of(lag.rows, "topic")
        numbers = self._partitions.topics.look_up(topic.values)
        keys = partition_keys(numbers[topic.codes[rows]], numbers_of(lag.rows, "partition").values[rows])
        offset = numbers_of(lag.rows, "committed_offset").values[rows]
        end = offset + numbers_of(lag.rows, "lag").values[rows]
        return [TailPosition(*place) for place in zip(keys.tolist(), offset.tolist(), end.tolist(), strict=True)]

    def _is_idle(self, places: list[TailPosition]) -> npt.NDArray[np.bool_]:
        """Which ends were the same at the poll before."""
        if self._ends is None or not len(self._ends.keys):
            return np.zeros(len(places), dtype=bool)
        key, _, end = np.array(places, np.int64).reshape(-1, 3).T
        at, found = find(self._ends.keys, key)
        return np.asarray(found & self._ends.end.known[at] & (self._ends.end.values[at] == end))

    def _ask(self, places: list[TailPosition], now: Moment) -> None:
        """Leave questions, unless nobody has taken the last ones yet: those never asked first, one a partition."""
        due = {
            place for place in places if place not in self._told and now.monotonic - self._asked[place] >= RETRY_SECONDS
        }
        if not due or self.wanted.is_waiting:
            return
        chosen: dict[int, TailPosition] = {}
        for place in sorted(due, key=lambda place: (self._asked[place], -place.offset, place.key)):
            chosen.setdefault(place.key, place)
            if len(chosen) == MOST:
                break
        self._asked.update(dict.fromkeys(chosen.values(), now.monotonic))
        self.wanted.put(self._named(list(chosen.values())))

    def _named(self, places: list[TailPosition]) -> TailQuery:
        """The questions with the names and leaders of their partitions."""
        key, offset, end = np.array(places, np.int64).T
        rows, keys = self._partitions.rows, self._partitions.keys
        order = np.argsort(keys, kind="stable")
        row = order[find(keys[order], key)[0]]  # it has a lag, so it has an end
        topic, leader = texts_of(rows, "topic"), numbers_of(rows, "leader")
        return TailQuery(
            Texts(topic.codes[row], topic.values),
            numbers_of(rows, "partition").values[row],
            np.where(leader.known, leader.values, -1)[row].astype(np.int32),
            key,
            offset,
            end,
        )


def standing(lag: Batch, policies: Policies) -> npt.NDArray[np.intp]:
    """The rows that stand so near to an end that markers alone may explain it, where markers are to be no lag."""
    behind, lost = numbers_of(lag.rows, "lag"), numbers_of(lag.rows, "lost_messages")
    near = behind.known & (behind.values > 0) & (behind.values <= LARGEST_REMAINDER) & (lost.values == 0)
    rows = np.flatnonzero(near & (numbers_of(lag.rows, "seconds_since_moved").values > 0))
    group = texts_of(lag.rows, "group")
    numbers = policies.of_groups(group.values)
    cares = (policies.column(numbers, "mode") == Mode.LAGWATCH) & (
        policies.column(numbers, "extensions") & Extension.REMAINDER
    ).astype(bool)
    return np.asarray(rows[cares[group.codes[rows]]], np.intp)
