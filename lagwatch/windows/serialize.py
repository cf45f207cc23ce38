"""Serializes a window store to record batches for the checkpoint, and back; groups and topics are stored by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.columns import group_keys, numbers_of, partition_keys, recode, split_group_keys, texts_of
from lagwatch.windows.keyed_rows import KeyedRows
from lagwatch.windows.store import WindowStore

WINDOWS, ENDS = "windows", "window_ends"
_CHUNK = 20_000  # rows per batch: one batch of all windows would double the memory
_ABOUT = b"about"


def save(store: WindowStore) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The whole store in named parts: the end offsets first, then the windows."""
    keys = store.ends.table.keys
    _, topic, partition = split_group_keys(keys)
    yield (
        ENDS,
        _batch(
            {
                "topic": _text(topic, store.topics),
                "partition": pa.array(partition),
                "partition_count": pa.array(store.ends.partitions(topic)),
                **_columns(store.ends.table, store.ends.table.rows),
            },
            {"slots": store.slots, "end_times": list(store.end_times), "last_commits": store.last_commits()},
        ),
    )
    names = store.row_names()
    for start in range(0, len(names.row), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield (
            WINDOWS,
            _batch(
                {
                    "group": _text(names.group[part], store.groups),
                    "topic": _text(names.topic[part], store.topics),
                    "partition": pa.array(names.partition[part]),
                    **_columns(store.table, names.row[part]),
                },
                {},
            ),
        )


def load(store: WindowStore, parts: Iterable[tuple[str, pa.RecordBatch]]) -> None:
    """Fill an empty store with what `save` gave. Windows of another width are resized to the store's."""
    slots = store.slots
    for name, rows in parts:
        topic = store.topics.numbers(texts_of(rows, "topic").values)[texts_of(rows, "topic").codes]
        partition = numbers_of(rows, "partition").values
        key = partition_keys(topic, partition)
        if name == ENDS:
            about = json.loads(rows.schema.metadata[_ABOUT])
            store.resize(about["slots"])
            store.end_times.extend(about["end_times"])
            store.ends.set_partitions(topic, numbers_of(rows, "partition_count").values)
            store.set_last_commits(about["last_commits"])
            _fill(store.ends.table, key, rows)
        else:
            group = texts_of(rows, "group")
            _fill(store.table, group_keys(store.groups.numbers(group.values)[group.codes], key), rows)
    store.resize(slots)


def slots_in(ends: pa.RecordBatch) -> int:
    """The number of slots of the windows saved with these end offsets."""
    return int(json.loads(ends.schema.metadata[_ABOUT])["slots"])


def _columns(table: KeyedRows, row: npt.NDArray[np.int32]) -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    for name, kind in table.kinds.items():
        values = table[name][..., row]
        if kind.slots is not None:
            values[1:] -= values[:-1].copy()  # differences between slots take a third of the bytes
        flat = pa.array(values if kind.slots is None else values.T.reshape(-1))
        found[name] = flat if kind.slots is None else pa.FixedSizeListArray.from_arrays(flat, kind.slots)
    return found


def _fill(table: KeyedRows, keys: npt.NDArray[np.int64], rows: pa.RecordBatch) -> None:
    table.add(keys)
    row, _ = table.find(keys)
    for name, kind in table.kinds.items():
        if name not in rows.schema.names:
            continue  # saved by a version without this column
        column = rows.column(name)
        if kind.slots is None:
            table[name][row] = column.to_numpy(zero_copy_only=False)
        else:
            steps = column.values.to_numpy(zero_copy_only=False).reshape(-1, kind.slots).T
            table[name][:, row] = np.cumsum(steps, axis=0, dtype=np.int64)


def _batch(columns: dict[str, pa.Array], about: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([(name, column.type) for name, column in columns.items()], {_ABOUT: json.dumps(about)})
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def _text(numbers: npt.NDArray[np.int64], names: Any) -> pa.Array:
    texts = recode(numbers, names)
    return pa.DictionaryArray.from_arrays(pa.array(texts.codes, pa.int32()), pa.array(texts.values, pa.string()))
