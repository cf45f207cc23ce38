"""Reads columns of a record batch as numpy arrays, and joins rows by integer keys without a Python loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.batch import Masked, Texts

_PARTITION_BITS = 20
_TOPIC_BITS = 22


def texts_of(rows: pa.RecordBatch, name: str) -> Texts:
    """A dictionary-encoded column as codes and values; the code of null is -1."""
    column = rows.column(name)
    return Texts(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), _as_list(column.dictionary))


def strings_of(rows: pa.RecordBatch, name: str) -> list[Any]:
    """A dictionary-encoded column as strings, None for null."""
    return _as_list(rows.column(name).dictionary_decode())


def _as_list(strings: pa.Array) -> list[Any]:
    values: list[Any] = strings.to_numpy(zero_copy_only=False).tolist()  # ten times faster than to_pylist
    return values


def numbers_of(rows: pa.RecordBatch, name: str) -> Masked:
    """A number or boolean column with its validity; null values are zero."""
    column = rows.column(name)
    known = column.is_valid().to_numpy(zero_copy_only=False)
    zero = pa.scalar(value=False if pa.types.is_boolean(column.type) else 0, type=column.type)
    return Masked(column.fill_null(zero).to_numpy(zero_copy_only=False), known)


class Names:
    """Assigns small integers to names, for use in keys.

    A number is reused only two calls of `keep` after its name was dropped, so that a key held for one more poll never
    refers to another name.
    """

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._name: dict[int, str] = {}
        self._next = 0
        self._quarantined: list[int] = []
        self._free: list[int] = []

    def numbers(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The numbers of names; new names get new numbers."""
        return np.array([self._number_of(name) for name in names], dtype=np.int64)

    def existing(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The numbers of those names that have one; others are left out."""
        return np.array([self._number[name] for name in names if name in self._number], dtype=np.int64)

    def look_up(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The number of each name, -1 where it has none."""
        return np.array([self._number.get(name, -1) for name in names], dtype=np.int64)

    def names(self) -> set[str]:
        """Every name that has a number."""
        return set(self._number)

    def all(self) -> npt.NDArray[np.int64]:
        """Every number in use."""
        return np.fromiter(self._name, dtype=np.int64, count=len(self._name))

    def name(self, number: int) -> str:
        """The name behind a number."""
        return self._name[number]

    def keep(self, numbers: npt.NDArray[np.int64]) -> None:
        """Drop every name except these; called once per poll."""
        self._free += self._quarantined
        dropped = self._name.keys() - set(numbers.tolist())
        self._quarantined = list(dropped)
        for number in dropped:
            del self._number[self._name.pop(number)]

    def forget(self, name: str) -> None:
        """Drop one name; it gets another number when it comes back."""
        number = self._number.pop(name, None)
        if number is not None:
            del self._name[number]
            self._quarantined.append(number)

    def _number_of(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            if self._free:
                number = self._free.pop()
            else:
                number, self._next = self._next, self._next + 1
            self._number[name], self._name[number] = number, name
        return number


def partition_keys(topic: npt.NDArray[np.int64], partition: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """One integer key for topic and partition."""
    return (topic << _PARTITION_BITS) | partition.astype(np.int64)


def group_keys(group: npt.NDArray[np.int64], partition_key: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """One integer key for group, topic and partition; sorts by group, then topic, then partition."""
    return (group << (_PARTITION_BITS + _TOPIC_BITS)) | partition_key


def split_group_keys(
    keys: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The group, topic and partition of each key."""
    group = keys >> (_PARTITION_BITS + _TOPIC_BITS)
    topic = (keys >> _PARTITION_BITS) & ((1 << _TOPIC_BITS) - 1)
    return group, topic, (keys & ((1 << _PARTITION_BITS) - 1)).astype(np.int32)


def find(
    sorted_keys: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The position of each wanted key in sorted keys, and whether it is there; without it the position is meaningless."""
    if not len(sorted_keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
    return at, sorted_keys[at] == wanted


def recode(numbers: npt.NDArray[np.int64], names: Names) -> Texts:
    """A text column from the numbers of names."""
    found, codes = distinct(numbers)
    return Texts(codes, [names.name(number) for number in found])


def distinct(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> tuple[list[int], npt.NDArray[np.int32]]:
    """The distinct numbers, ascending, and each row's index into them. For small numbers: it counts instead of sorting."""
    present = np.bincount(numbers) > 0
    position = np.cumsum(present, dtype=np.int32) - 1
    return np.flatnonzero(present).tolist(), position[numbers]
