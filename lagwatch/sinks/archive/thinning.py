"""Which polls of a per-partition table are archived: the first in each span of time.

The choice depends on the polls alone, not on the order they come in, so that an hour built again is the same hour.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.catalogue import Table
from lagwatch.sinks.archive.columns import AT

Shape = frozenset[str]
"""The fields that are known in a batch. Jobs write different fields of one table (offsets every poll, sizes now and
then); the first batch of one job must not push out those of another."""


def shape_of(rows: pa.RecordBatch, table: Table) -> Shape:
    """The fields known in any of the rows."""
    names = set(rows.schema.names)
    return frozenset(
        field.name
        for field in table.fields
        if field.name in names and rows.column(field.name).null_count < rows.num_rows
    )


class FirstOfSpan:
    """The times seen of one hour, and which of them are kept. A span of 0 keeps all.

    A time is dropped when an earlier one of its span has all that it has.
    """

    def __init__(self, start_ms: int, span_ms: int) -> None:
        self._start_ms = start_ms
        self._span_ms = span_ms
        self._seen: dict[int, dict[int, set[Shape]]] = {}  # by span, then by time

    @property
    def thins(self) -> bool:
        """Whether anything is ever dropped."""
        return self._span_ms > 0

    def wants(self, at_ms: int, shape: Shape) -> bool:
        """Whether a batch would be kept, as far as is known now. More batches can only make that a no."""
        times = self._seen.get(self._span(at_ms), {})
        return not any(earlier < at_ms and any(shape <= other for other in times[earlier]) for earlier in times)

    def saw(self, at_ms: int, shape: Shape) -> None:
        """A batch of this time is there."""
        self._seen.setdefault(self._span(at_ms), {}).setdefault(at_ms, set()).add(shape)

    def saw_all(self, rows: pa.RecordBatch, table: Table) -> None:
        """Rows of several times are there, all the rows of some of their series."""
        fields = [field.name for field in table.fields if field.name in rows.schema.names]
        counted = pa.Table.from_batches([rows]).group_by(AT).aggregate([(name, "count") for name in fields])
        counts = [counted[f"{name}_count"].to_pylist() for name in fields]
        for position, at_ms in enumerate(counted[AT].cast(pa.int64()).to_pylist()):
            shape = frozenset(name for name, count in zip(fields, counts, strict=True) if count[position])
            times = self._seen.setdefault(self._span(at_ms), {})
            times[at_ms] = {shape.union(*times.get(at_ms, ()))}

    def add(self, other: FirstOfSpan) -> None:
        """What the other saw was seen."""
        for times in other._seen.values():
            for at_ms, shapes in times.items():
                for shape in shapes:
                    self.saw(at_ms, shape)

    def dropped(self) -> npt.NDArray[np.int64]:
        """The times that are not kept."""
        dropped = [
            at_ms
            for times in self._seen.values()
            for at_ms, shapes in times.items()
            if not any(self.wants(at_ms, shape) for shape in shapes)
        ]
        return np.array(sorted(dropped), np.int64)

    def _span(self, at_ms: int) -> int:
        return (at_ms - self._start_ms) // self._span_ms
