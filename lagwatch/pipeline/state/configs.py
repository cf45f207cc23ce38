"""Keeps the last known configuration of every topic, for topics whose configuration a run could not fetch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lagwatch.batch import Batch


class ConfigState:
    """The newest rows of the configs job."""

    def __init__(self) -> None:
        self._newest: Batch | None = None

    def complete(self, topics: Batch, *, partial: bool) -> Batch:
        """The rows of a run; if it was partial, with the last known rows of the topics it lacks."""
        if partial and self._newest is not None:
            known = _without(self._newest.rows, topics.rows["topic"].to_pylist())
            rows = pa.Table.from_batches([topics.rows, known]).unify_dictionaries().combine_chunks()
            topics = replace(topics, rows=rows.to_batches()[0] if len(rows) else topics.rows)
        self._newest = topics
        return topics

    def drop(self, topics: Collection[str]) -> None:
        """Drop deleted topics, and recreated ones, which may have another configuration."""
        if topics and self._newest is not None:
            self._newest = replace(self._newest, rows=_without(self._newest.rows, topics))

    def restore(self, topics: Batch | None) -> None:
        """Restore from the newest rows in the journal."""
        self._newest = topics


def _without(rows: pa.RecordBatch, topics: Collection[str]) -> pa.RecordBatch:
    names = rows["topic"].cast(pa.string())
    return rows.filter(pc.invert(pc.is_in(names, value_set=pa.array(sorted(topics), pa.string()))))
