"""Keeps the committed offsets of a cluster and when each last moved, and computes lag."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.batch import Batch, Column, Masked, make_rows
from lagwatch.catalogue import CONSUMER_LAG
from lagwatch.clock import Moment
from lagwatch.columns import Names, find, group_keys, numbers_of, partition_keys, recode, split_group_keys, texts_of
from lagwatch.pipeline.state.partitions import PartitionEnds
from lagwatch.time_lag import TimeLag


@dataclass(frozen=True, slots=True)
class _State:
    """One row per group and partition, sorted by key; times are monotonic seconds."""

    key: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    moved: npt.NDArray[np.float64]
    fetched: npt.NDArray[np.float64]
    # Other columns, passed through: the collector's, and after a restore also those that are computed again anyway.
    more: Mapping[str, pa.Array] = field(default_factory=dict)

    def where(self, mask: npt.NDArray[np.bool_]) -> _State:
        more = {name: column.filter(pa.array(mask)) for name, column in self.more.items()}
        return _State(self.key[mask], self.offset[mask], self.moved[mask], self.fetched[mask], more)


_NOTHING = _State(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float64), np.zeros(0, np.float64))
_OWN_COLUMNS = {"group", "topic", "partition", "committed_offset"}  # stored in the other fields of the state


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums by group."""

    groups: list[str]
    partitions: npt.NDArray[np.int64]
    total_lag: npt.NDArray[np.int64]
    max_lag: npt.NDArray[np.int64]
    unknown: npt.NDArray[np.int64]
    stale: npt.NDArray[np.int64]
    lost: npt.NDArray[np.int64]
    max_seconds: Mapping[str, Masked]  # lag_seconds and its bounds


class Ages(Protocol):
    """Estimates the age of the oldest unread message."""

    def __call__(
        self, keys: npt.NDArray[np.int64], committed: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
    ) -> TimeLag:
        """One estimate for each partition key and committed offset."""


class CommitState:
    """Tracks every committed offset of one cluster."""

    def __init__(self, topics: Names) -> None:
        self._topics = topics
        self._groups = Names()
        self._state = _NOTHING
        self._schema = CONSUMER_LAG.schema

    def observe(self, batch: Batch, kept_groups: Collection[str], now: Moment) -> None:
        """Update with the commits of a poll. Rows of `kept_groups`, which could not be fetched, stay unchanged."""
        key, offset = self._keys_of(batch), numbers_of(batch.rows, "committed_offset").values
        order = np.argsort(key, kind="stable")
        key, offset = key[order], offset[order]
        at, found = find(self._state.key, key)
        moved = np.full(len(key), now.monotonic)
        if len(self._state.key):
            same = found & (self._state.offset[at] == offset)
            moved[same] = self._state.moved[at[same]]
        self._schema = batch.rows.schema
        more = {name: column.take(pa.array(order)) for name, column in _other_columns(batch).items()}
        fresh = _State(key, offset, moved, np.full(len(key), now.monotonic), more)
        self._state = _merged(fresh, self._kept(kept_groups))
        self._groups.keep(np.unique(split_group_keys(self._state.key)[0]))

    def restore(self, batch: Batch, now: Moment) -> None:
        """Restore the last known commits from the journal."""
        key = self._keys_of(batch)
        written = now.monotonic - max(0, now.wall_ms - batch.at_ms) / 1000
        still = numbers_of(batch.rows, "seconds_since_moved").values.astype(np.float64)
        age = numbers_of(batch.rows, "age_seconds").values.astype(np.float64)
        order = np.argsort(key, kind="stable")
        offset = numbers_of(batch.rows, "committed_offset").values
        self._schema = batch.rows.schema
        more = {name: column.take(pa.array(order)) for name, column in _other_columns(batch).items()}
        self._state = _State(key[order], offset[order], (written - still)[order], (written - age)[order], more)

    def lag(self, cluster: str, ends: PartitionEnds, ages: Ages, now: Moment) -> tuple[Batch, Totals]:
        """Every row with its lag against the last known end offset, in messages and seconds, and the sums by group.

        Ends are read after commits, so lag is never too small; a leader change can still put the end below a commit:
        lag below zero means zero.
        """
        state = self._state
        group, topic, partition = split_group_keys(state.key)
        key = partition_keys(topic, partition)
        at, found = find(ends.keys, key)
        if len(ends.keys):
            known = found & ends.end.known[at]
            end = np.where(known, ends.end.values[at], 0)
            start = np.where(found & ends.start.known[at], ends.start.values[at], 0)
            fresh = (state.fetched == now.monotonic) & found & ends.fresh[at]
            answered = np.fmin(state.fetched, np.where(found, ends.at[at], state.fetched))
        else:
            known, end, start = found, np.zeros(len(state.key), np.int64), np.zeros(len(state.key), np.int64)
            fresh, answered = found, state.fetched
        lag = np.maximum(end - state.offset, 0) * known
        lost = np.maximum(start - state.offset, 0) * known
        # If unread messages were deleted, the oldest unread message is the one at the log start.
        age = ages(key, np.maximum(state.offset, start), end)
        seconds = {
            "lag_seconds": Masked(age.seconds, known & age.known),
            "lag_seconds_low": Masked(age.low, known & age.low_known),
            "lag_seconds_high": Masked(age.high, known & age.known),
        }
        columns: dict[str, Column] = {
            "group": recode(group, self._groups),
            "topic": recode(topic, self._topics),
            "partition": partition,
            "committed_offset": state.offset,
            "lag": Masked(lag, known),
            "seconds_since_moved": np.maximum(now.monotonic - state.moved, 0),
            **seconds,
            "lag_source": Masked(age.source.astype(np.int64), known & age.known),
            "lost_messages": Masked(lost, known),
            "stale": ~fresh,
            "age_seconds": Masked(np.maximum(now.monotonic - answered, 0), ~fresh),
        }
        batch = Batch(CONSUMER_LAG.name, cluster, now.wall_ms, make_rows(self._schema, {**state.more, **columns}))
        return batch, self._totals(group, Masked(lag, known), fresh, lost, seconds)

    def _totals(
        self,
        group: npt.NDArray[np.int64],
        lag: Masked,
        fresh: npt.NDArray[np.bool_],
        lost: npt.NDArray[np.int64],
        seconds: Mapping[str, Masked],
    ) -> Totals:
        if not len(group):
            nothing, none = np.zeros(0, np.int64), Masked(np.zeros(0), np.zeros(0, np.bool_))
            max_seconds = {f"max_{name}": none for name in seconds}
            return Totals([], nothing, nothing, nothing, nothing, nothing, nothing, max_seconds)
        numbers, first, counts = np.unique(group, return_index=True, return_counts=True)
        return Totals(
            [self._groups.name(number) for number in numbers.tolist()],
            counts,
            np.add.reduceat(lag.values, first),
            np.maximum.reduceat(lag.values, first),
            np.add.reduceat((~lag.known).astype(np.int64), first),
            np.add.reduceat((~fresh).astype(np.int64), first),
            np.add.reduceat(lost, first),
            {f"max_{name}": _largest(column, first) for name, column in seconds.items()},
        )

    def _keys_of(self, batch: Batch) -> npt.NDArray[np.int64]:
        group, topic = texts_of(batch.rows, "group"), texts_of(batch.rows, "topic")
        if not len(batch):
            return np.zeros(0, np.int64)
        partition = partition_keys(
            self._topics.numbers(topic.values)[topic.codes], numbers_of(batch.rows, "partition").values
        )
        return group_keys(self._groups.numbers(group.values)[group.codes], partition)

    def _kept(self, groups: Collection[str]) -> _State:
        """Rows of these groups on topics that still exist."""
        if not len(self._state.key) or not groups:
            return _NOTHING
        group, topic, _ = split_group_keys(self._state.key)
        wanted = np.isin(group, self._groups.existing(groups)) & np.isin(topic, self._topics.all())
        return self._state.where(wanted)


def _largest(column: Masked, first: npt.NDArray[np.intp]) -> Masked:
    """The largest known value of each group; null where none is known."""
    largest = np.maximum.reduceat(np.where(column.known, column.values, -1.0), first)
    return Masked(np.maximum(largest, 0), largest >= 0)


def _merged(fresh: _State, kept: _State) -> _State:
    if not len(kept.key):
        return fresh
    # A group whose new coordinator responded although it counts as stale must not occur twice.
    kept = kept.where(~np.isin(kept.key, fresh.key))
    key = np.concatenate((fresh.key, kept.key))
    order = np.argsort(key, kind="stable")
    both = {
        name: pa.chunked_array([_column(fresh, kept, name), _column(kept, fresh, name)])
        for name in {**fresh.more, **kept.more}
    }
    more = {name: column.take(pa.array(order)).combine_chunks() for name, column in both.items()}
    return _State(
        key[order],
        np.concatenate((fresh.offset, kept.offset))[order],
        np.concatenate((fresh.moved, kept.moved))[order],
        np.concatenate((fresh.fetched, kept.fetched))[order],
        more,
    )


def _other_columns(batch: Batch) -> dict[str, pa.Array]:
    """The columns to pass through: those of the collector that have values and are not stored otherwise."""
    columns = zip(batch.rows.schema.names, batch.rows.columns, strict=True)
    return {n: column for n, column in columns if n not in _OWN_COLUMNS and column.null_count < len(column)}


def _column(state: _State, other: _State, name: str) -> pa.Array:
    """A column of one state; nulls if only the other has it."""
    found = state.more.get(name)
    return pa.nulls(len(state.key), other.more[name].type) if found is None else found
