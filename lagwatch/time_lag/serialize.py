"""Serializes a history to one record batch for the checkpoint, and back; topics are stored by name and id.

Topic numbers are valid in one process only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.columns import distinct, numbers_of, partition_keys, split_group_keys, texts_of
from lagwatch.time_lag.history import NEWEST, SCALARS, EndHistory
from lagwatch.time_lag.older_points import POINT, OlderPoints

_NEWEST, _OLDER = "newest_", "older_"
_SLOTS = b"older_slots"


def pack(history: EndHistory, name_of: Callable[[int], tuple[str, str]]) -> pa.RecordBatch:
    """The whole history; `name_of` returns the name and id of a topic number."""
    table = history.table
    row, keys = table.rows, table.keys
    _, topic, partition = split_group_keys(keys)
    numbers, codes = distinct(topic)
    names = [name_of(number) for number in numbers]
    columns = {
        "topic": _text(codes, [name for name, _ in names]),
        "topic_id": _text(codes, [topic_id for _, topic_id in names]),
        "partition": pa.array(partition),
    }
    for name in SCALARS:
        columns[name] = pa.array(table[name][row])
    for name in POINT:
        columns[_NEWEST + name] = pa.FixedSizeListArray.from_arrays(pa.array(table[name][:, row].T.reshape(-1)), NEWEST)
    columns |= _packed_older(history.older, keys)
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    schema = schema.with_metadata({_SLOTS: str(history.older.slots)})
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def _packed_older(older: OlderPoints, keys: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    row, followed = older.table.find(keys)
    row = row[followed]
    lowest, count = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int32)
    lowest[followed], count[followed] = older.table["lowest"][row], older.table["count"][row]
    filled = np.arange(older.slots) < count[followed, None]
    ends = pa.array(np.r_[0, np.cumsum(count)].astype(np.int32))
    lists = {
        _OLDER + name: pa.ListArray.from_arrays(ends, pa.array(older.table[name][:, row].T[filled])) for name in POINT
    }
    return {"followed": pa.array(followed), "lowest": pa.array(lowest), **lists}


def unpack(rows: pa.RecordBatch, into: EndHistory, number_of: Callable[[str, str], int | None]) -> None:
    """Fill an empty history. Topics whose number is None are skipped: they were deleted, or recreated since.

    A checkpoint of another version, with other columns, is skipped as a whole: the polls after it start the history anew.
    """
    if not {*SCALARS, *(_NEWEST + name for name in POINT)} <= set(rows.schema.names):
        return
    topic, topic_id = texts_of(rows, "topic"), texts_of(rows, "topic_id")
    numbers = np.array(
        [-1 if (n := number_of(*names)) is None else n for names in zip(topic.values, topic_id.values, strict=True)],
        dtype=np.int64,
    )
    number = numbers[topic.codes] if len(numbers) else np.zeros(0, np.int64)
    keys = partition_keys(number, numbers_of(rows, "partition").values)
    at = np.flatnonzero(number >= 0)
    into.table.add(keys[at])
    row, _ = into.table.find(keys[at])
    for name in SCALARS:
        into.table[name][row] = numbers_of(rows, name).values[at]
    for name in POINT:
        into.table[name][:, row] = _flat(rows, _NEWEST + name).reshape(-1, NEWEST)[at].T
    _unpack_older(rows, into.older, keys, at)


def _unpack_older(rows: pa.RecordBatch, older: OlderPoints, keys: npt.NDArray[np.int64], at: npt.NDArray[Any]) -> None:
    older.restore_slots(int(rows.schema.metadata[_SLOTS]))
    followed = at[numbers_of(rows, "followed").values[at]]
    older.table.add(keys[followed])
    row, _ = older.table.find(keys[followed])
    older.table["lowest"][row] = numbers_of(rows, "lowest").values[followed]
    first = rows.column(_OLDER + "offset").offsets.to_numpy().astype(np.int64)
    count = np.diff(first)[followed]
    older.table["count"][row] = count
    slot = np.arange(older.slots)[:, None]
    place, of_row = np.nonzero(slot < count)
    for name in POINT:
        older.table[name][place, row[of_row]] = _flat(rows, _OLDER + name)[first[followed][of_row] + place]


def _flat(rows: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = rows.column(name).values.to_numpy(zero_copy_only=False)
    return values


def _text(codes: npt.NDArray[np.int32], values: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values, pa.string()))
