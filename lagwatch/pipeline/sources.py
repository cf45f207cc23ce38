"""Tracks every source the agent polls: up or down, since when, and why."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lagwatch.batch import Batch, Column, is_retired, make_batch
from lagwatch.catalogue import LOGS, SOURCE
from lagwatch.clock import Moment
from lagwatch.columns import texts_of
from lagwatch.protocols import Collected
from lagwatch.source_names import BACKLOG
from lagwatch.text import duration_text

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Source:
    up: bool
    since: Moment
    last_success: Moment | None
    error: str | None = None
    failures: int = 0


class Sources:
    """The sources of one cluster. Changes are logged, polls are not."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._sources: dict[tuple[str, str], _Source] = {}
        self._fallbacks: dict[str, str | None] = {}  # of each source, at its last successful run

    @property
    def names(self) -> set[str]:
        """The sources polled so far."""
        return {source for source, _ in self._sources}

    def observe(
        self, source: str, collected: Collected, duration_seconds: float, now: Moment, steady_ms: int | None = None
    ) -> Batch:
        """Update with one run of a collector; returns a row for the run and one for each target.

        A target absent from this run is no longer polled and is dropped. If it was down, it gets one final `up` row, or
        readers of the newest row would show it down for ever.
        """
        reasons: dict[str, list[str]] = {}
        for failure in collected.failures:
            reasons.setdefault(failure.target, []).append(failure.reason)
        targets = {"", *collected.reached, *reasons}
        absent = [key for key in self._sources if key[0] == source and key[1] not in targets]
        final = [(key[1], _Source(True, now, now)) for key in absent if not self._sources[key].up]
        for key in absent:
            self._drop(key, now)
        rows = [(target, self._update(source, target, reasons.get(target), now)) for target in sorted(targets)]
        rows += final
        ends_of_target = {f"broker {broker}": span for broker, span in collected.ends_read.items()}
        ends = [ends_of_target.get(target, (None, None)) for target, _ in rows]
        if "" not in reasons:
            self._observe_fallback(source, collected.fallback)
        return make_batch(
            SOURCE,
            self._cluster,
            now.wall_ms,
            {
                "source": [source] * len(rows),
                "target": [target for target, _ in rows],
                "up": [state.up for _, state in rows],
                "since_ms": [state.since.wall_ms for _, state in rows],
                "duration_seconds": [duration_seconds if target == "" else None for target, _ in rows],
                "last_success_age_seconds": [
                    now.monotonic - state.last_success.monotonic if state.last_success else None for _, state in rows
                ],
                "error": [state.error for _, state in rows],
                "fallback": [collected.fallback if target == "" and state.up else None for target, state in rows],
                "steady_ms": [steady_ms if target == "" else None for target, _ in rows],
                "complete": [collected.complete if target == "" else None for target, _ in rows],
                "ends_request_ms": [request_ms for request_ms, _ in ends],
                "ends_response_ms": [response_ms for _, response_ms in ends],
            },
            source=source,
        )

    def forget(self, source: str) -> None:
        """Drop a source without a final row: the journal has it."""
        self._sources = {key: kept for key, kept in self._sources.items() if key[0] != source}
        self._fallbacks.pop(source, None)

    def retire(self, source: str, now: Moment) -> Batch:
        """Drop a source that is no longer polled; returns its final rows, for itself and each target that was down.

        They are `up`, or readers of the newest row would show a target down for ever, and `retired`, or readers of the
        journal would show what the source brought for as long as the journal keeps it.
        """
        targets = sorted(target for of, target in self._sources if of == source)
        final = ["", *(target for target in targets if target and not self._sources[source, target].up)]
        for target in targets:
            self._drop((source, target), now)
        self._fallbacks.pop(source, None)
        columns: dict[str, Column] = {
            "source": [source] * len(final),
            "target": final,
            "up": [True] * len(final),
            "since_ms": [now.wall_ms] * len(final),
            "retired": [True] * len(final),
        }
        return make_batch(SOURCE, self._cluster, now.wall_ms, columns, source=source)

    def restore(self, batch: Batch, now: Moment) -> None:
        """Restore since when each source is up or down."""
        for row in batch.rows.to_pylist():
            age = row["last_success_age_seconds"]
            self._sources[row["source"], row["target"]] = _Source(
                row["up"],
                _moment_at(row["since_ms"], now),
                None if age is None else _moment_at(batch.at_ms - round(age * 1000), now),
                row["error"],
            )
            if row["target"] == "" and row["up"]:
                self._fallbacks[row["source"]] = row["fallback"]

    def _update(self, source: str, target: str, reasons: list[str] | None, now: Moment) -> _Source:
        state = self._sources.get((source, target))
        up = reasons is None
        if state is None:
            state = self._sources[source, target] = _Source(up, now, None)
            changed = not up  # a source that is up from the start is not logged
        else:
            changed = state.up != up
        error = None if reasons is None else "; ".join(reasons)
        if changed:
            self._log(source, target, state, error, now)
            state.up, state.since, state.failures = up, now, 0
        state.error = error
        if up:
            state.last_success = now
        else:
            state.failures += 1
        return state

    def _log(self, source: str, target: str, state: _Source, error: str | None, now: Moment) -> None:
        where = f"cluster={self._cluster} source={source}" + (f' target="{target}"' if target else "")
        if error is None:
            down_for = duration_text(now.monotonic - state.since.monotonic)
            log.info("source recovered %s down_for=%s polls_failed=%d", where, down_for, state.failures)
        else:
            log.warning('source failed %s error="%s"', where, error)

    def _observe_fallback(self, source: str, fallback: str | None) -> None:
        before, self._fallbacks[source] = self._fallbacks.get(source), fallback
        if fallback is not None and fallback != before:
            log.info('fallback in use cluster=%s source=%s reason="%s"', self._cluster, source, fallback)
        elif fallback is None and before is not None:
            log.info("fallback ended cluster=%s source=%s", self._cluster, source)

    def _drop(self, key: tuple[str, str], now: Moment) -> None:
        state = self._sources.pop(key)
        if not state.up:
            down_for = duration_text(now.monotonic - state.since.monotonic)
            log.info('source removed cluster=%s source=%s target="%s" down_for=%s', self._cluster, *key, down_for)


def empty_tables(newest: Iterable[Batch], now: Moment) -> list[Batch]:
    """An empty batch for each table of a retired source, except `source`.

    Without them, its old rows would become the newest again when it is added back.
    """
    return [
        replace(batch, at_ms=now.wall_ms, rows=_no_rows(batch.rows.schema))
        for batch in newest
        if batch.table != SOURCE.name
    ]


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Not a slice, which would keep every name in the dictionaries."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def retire_cluster(cluster: str, newest: Sequence[Batch], now: Moment) -> list[Batch]:
    """The last batches of a cluster that is no longer polled, from the newest of each table and source."""
    sources = Sources(cluster)
    for batch in newest:
        if batch.table == SOURCE.name and not is_retired(batch):
            sources.restore(batch, now)
    tables = [batch for batch in newest if batch.table not in LOGS]
    return [*empty_tables(tables, now), *(sources.retire(source, now) for source in sorted(sources.names))]


def run_field(batch: Batch, field: str) -> Any:
    """A field of the row of `source` that describes the whole run; None in final rows written by older versions."""
    targets = texts_of(batch.rows, "target")
    if "" not in targets.values:
        return None
    return batch.rows[field][int(np.flatnonzero(targets.codes == targets.values.index(""))[0])].as_py()


def ends_read(batch: Batch) -> dict[int, tuple[int, int]]:
    """`Collected.ends_read` of this run."""
    rows = batch.rows.select(["target", "ends_request_ms", "ends_response_ms"]).to_pylist()
    return {
        int(row["target"].removeprefix("broker ")): (row["ends_request_ms"], row["ends_response_ms"])
        for row in rows
        if row["ends_request_ms"] is not None
    }


def reads_topic(batch: Batch) -> bool:
    """Whether this run of the commits job read the offsets topic: it neither failed nor fell back, and is not its end."""
    return bool(run_field(batch, "up")) and run_field(batch, "fallback") is None and not is_retired(batch)


def has_backlog(batch: Batch) -> bool:
    """Whether this run of the commits job left commits to read."""
    return any(row["target"] == BACKLOG and not row["up"] for row in batch.rows.select(["target", "up"]).to_pylist())


def _moment_at(wall_ms: int, now: Moment) -> Moment:
    return Moment(wall_ms, now.monotonic - max(0, now.wall_ms - wall_ms) / 1000)
