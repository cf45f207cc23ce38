"""Reads the primitive types of Kafka's flexible messages, and collects values into columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

IntColumn = npt.NDArray[np.int64]
CodeColumn = npt.NDArray[np.int32]

FEW_RECORDS = 6  # up to this many records a loop is faster than numpy


class WireReader:
    """Reads a response's bytes from front to back."""

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def number(self, size: int) -> int:
        self.pos += size
        return int.from_bytes(self.data[self.pos - size : self.pos], "big", signed=True)

    def uvarint(self) -> int:
        byte = self.data[self.pos]
        self.pos += 1
        if byte < 0x80:
            return byte
        value, shift = byte & 0x7F, 7
        while True:
            byte = self.data[self.pos]
            self.pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw(self, size: int) -> bytes:
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def name(self) -> bytes:
        """A compact string as bytes; null is empty."""
        return self.raw(max(self.uvarint() - 1, 0))

    def text(self) -> str | None:
        """A compact nullable string."""
        size = self.uvarint()
        return None if size == 0 else self.raw(size - 1).decode()

    def length(self) -> int:
        """The length of a compact array; null is empty."""
        return max(self.uvarint() - 1, 0)

    def numbers(self) -> list[int]:
        """A compact array of int32."""
        size = self.length()
        return list(struct.unpack(f">{size}i", self.raw(4 * size)))

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.raw(self.uvarint())

    def peek(self, dtype: np.dtype[Any], count: int) -> bytes:
        """The bytes of the next records without advancing; fewer if the data ends before."""
        return self.data[self.pos : self.pos + count * dtype.itemsize]

    def view(self, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any] | None:
        """The next records as an array without advancing; None if the data ends before."""
        if self.pos + count * dtype.itemsize > len(self.data):
            return None
        return np.frombuffer(self.data, dtype, count, self.pos)


@dataclass(slots=True)
class NameCodes:
    """Numbers distinct names in order of appearance."""

    numbers: dict[bytes, int] = field(default_factory=dict)

    def code(self, name: bytes) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def names(self) -> list[str]:
        return [name.decode() for name in self.numbers]


def expand_runs(runs: Sequence[tuple[int, int, int]]) -> tuple[CodeColumn, CodeColumn]:
    table = np.array(runs, dtype=np.int32).reshape(-1, 3)
    return np.repeat(table[:, 0], table[:, 2]), np.repeat(table[:, 1], table[:, 2])


def concatenate(columns: Sequence[tuple[Any, ...]], position: int, dtype: Any) -> npt.NDArray[Any]:
    if not columns:
        return np.zeros(0, dtype)
    # Convert each part: an empty list would make the whole column float64, which loses digits past 2^53.
    return np.concatenate([np.asarray(column[position], dtype) for column in columns])
