"""An in-memory sink: keyed by point, so repeated writes are idempotent; fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lagwatch.batch import Batch
from lagwatch.catalogue import BUILT_IN
from lagwatch.errors import SinkError


class MemorySink:
    """Holds points by table, time and tags."""

    def __init__(self, name: str = "memory", *, in_order: bool = False) -> None:
        self.name = name
        self.in_order = in_order
        self.points: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.order: list[int] = []
        self.fails: Callable[[Batch], SinkError | None] = lambda _: None
        self.settles: Callable[[int], int] = lambda poll: poll
        self.closed = False

    def write(self, poll: int, batches: Sequence[Batch]) -> None:
        for batch in batches:
            error = self.fails(batch)
            if error is not None:
                raise error
        for batch in batches:
            tags = [tag.name for tag in BUILT_IN[batch.table].tags if tag.name != "cluster"]
            for row in batch.rows.to_pylist():
                key = (batch.table, batch.cluster, batch.at_ms, *(row[tag] for tag in tags))
                self.points[key] = row
        self.order.append(poll)

    def settled(self, poll: int) -> int:
        return self.settles(poll)

    def close(self) -> None:
        self.closed = True
