"""Stores the rows of an unfinished hour on disk, as sorted blocks in an unnamed file.

A crash leaves no unnamed file behind; the journal still has its rows.
"""

from __future__ import annotations

import bisect
import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lagwatch.batch import decode_rows, encode_rows
from lagwatch.sinks.archive.columns import compacted, keys_of

Key = tuple[Any, ...]
"""The tags of a row, texts and numbers. Python sorts texts in the order of their UTF-8 bytes."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows in the spool, sorted by tags, from `first` to `last`."""

    offset: int
    size: int
    rows: int
    first: Key
    last: Key


class Spool:
    """An append-only file of blocks. Raises the disk's OSErrors; see `undone_on_error`."""

    def __init__(self, folder: Path) -> None:
        # Unbuffered, so that a full disk fails the write that fills it and not a later one.
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._size = 0

    @contextlib.contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Removes what was appended inside if an exception is raised."""
        size = self._size
        try:
            yield
        except BaseException:
            self.shrink(size)
            raise

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self._size

    def shrink(self, size: int) -> None:
        """Cut the file back to this size."""
        self._file.truncate(size)
        self._size = size

    def append(self, rows: pa.RecordBatch, tags: list[str], block_rows: int) -> list[Block]:
        """Sort the rows by tags and write them as blocks of at most `block_rows` rows."""
        keys = keys_of(rows, tags)
        if (keys[1:] < keys[:-1]).any():
            rows = rows.take(pa.array(np.argsort(keys, kind="stable")))
        return [
            self._append_block(rows.slice(start, block_rows), tags) for start in range(0, rows.num_rows, block_rows)
        ]

    def _append_block(self, rows: pa.RecordBatch, tags: list[str]) -> Block:
        payload = memoryview(encode_rows(compacted(rows)))
        self._file.seek(self._size)
        written = 0
        while written < len(payload):  # a disk that is nearly full accepts a part
            written += self._file.write(payload[written:])
        block = Block(
            self._size, len(payload), rows.num_rows, key_at(rows, tags, 0), key_at(rows, tags, rows.num_rows - 1)
        )
        self._size += len(payload)
        return block

    def read(self, block: Block) -> pa.RecordBatch:
        """The rows of a block."""
        self._file.seek(block.offset)
        payload = self._file.read(block.size)
        if len(payload) != block.size:
            raise OSError("the spool file was truncated")
        return decode_rows(payload)

    def close(self) -> None:
        """Close the file, which frees its space."""
        self._file.close()


def key_at(rows: pa.RecordBatch, tags: list[str], row: int) -> Key:
    """The tags of one row."""
    return tuple(rows.column(name)[row].as_py() for name in tags)


def between(rows: pa.RecordBatch, tags: list[str], low: Key | None, high: Key | None) -> pa.RecordBatch:
    """Of sorted rows, those with a key in [low, high); None means no bound."""
    positions = range(rows.num_rows)
    start = 0 if low is None else bisect.bisect_left(positions, low, key=lambda row: key_at(rows, tags, row))
    end = (
        rows.num_rows if high is None else bisect.bisect_left(positions, high, key=lambda row: key_at(rows, tags, row))
    )
    return rows.slice(start, end - start)
