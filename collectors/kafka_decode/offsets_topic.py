"""Decodes records of __consumer_offsets to commits and deletions, as columns.

A key begins with its kind: 0 and 1 are committed offsets, 2 a classic group, 3 and 17 a group of the new protocols
(KIP-848, KIP-1071). Other kinds, such as members and their assignments, are skipped. The same key comes with every commit
of a partition, so a table decodes each key once and numbers it.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.reader import CodeColumn, IntColumn
from collectors.kafka_decode.record_columns import Records

_OFFSETS, _GROUPS = (0, 1), (2, 3, 17)
UNWATCHED, SKIPPED, DAMAGED = -1, -2, -3  # numbers of keys without rows
WHOLE_GROUP = -1  # in place of a partition: the row is about the group itself
_NEWEST_VALUE = 4  # the first version with a compact string; later versions may differ


@dataclass(frozen=True, slots=True)
class CommitRows:
    """Commits in order. `present` is false if the offset was deleted; in a row about a group, if the group was."""

    key: CodeColumn
    order: IntColumn
    offset: IntColumn
    present: npt.NDArray[np.bool_]
    time_ms: IntColumn

    def __len__(self) -> int:
        return len(self.key)

    def at(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> CommitRows:
        """Some of the rows."""
        return CommitRows(self.key[rows], self.order[rows], self.offset[rows], self.present[rows], self.time_ms[rows])


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """The rows of some records with the batch of each row, and the records that made no row."""

    rows: CommitRows
    batch: CodeColumn
    skipped: int
    damaged: list[tuple[int, int]]
    """Batch and offset of records that could not be decoded."""


class KeyTable(dict[bytes, int]):
    """Numbers every key; `keys[raw]` decodes a new one. Keys that make no rows have negative numbers."""

    def __init__(self, watch_group: Callable[[str], bool], watch_topic: Callable[[str], bool]) -> None:
        super().__init__()
        self._watch_group = watch_group
        self._watch_topic = watch_topic
        self._group_codes: dict[str, int] = {}
        self._topic_codes: dict[str, int] = {"": 0}  # of rows about whole groups
        self._raw: list[bytes] = []
        self._group, self._topic, self._partition = array("i"), array("i"), array("i")

    def __missing__(self, raw: bytes) -> int:
        key = decode_key(raw)
        if isinstance(key, int):
            return key  # not stored: keys of members come and go
        group, topic, partition = key
        watched = self._watch_group(group) and (partition == WHOLE_GROUP or self._watch_topic(topic))
        number = UNWATCHED
        if watched:
            number = len(self._raw)
            self._raw.append(raw)
            self._group.append(self._group_codes.setdefault(group, len(self._group_codes)))
            self._topic.append(self._topic_codes.setdefault(topic, len(self._topic_codes)))
            self._partition.append(partition)
        self[raw] = number
        return number

    def emptied(self) -> KeyTable:
        """An empty table with the same filters."""
        return KeyTable(self._watch_group, self._watch_topic)

    def renumber(self, rows: CommitRows, others: KeyTable) -> CommitRows:
        """The rows with the key numbers of another table."""
        numbers = np.array([others[self._raw[key]] for key in rows.key.tolist()], np.int32)
        return CommitRows(numbers, rows.order, rows.offset, rows.present, rows.time_ms)

    def groups(self) -> tuple[CodeColumn, list[str]]:
        """The group of each key, as a code into the names."""
        return np.array(self._group, np.int32), list(self._group_codes)

    def topics(self) -> tuple[CodeColumn, list[str]]:
        """The topic of each key, as a code into the names; empty for a whole group."""
        return np.array(self._topic, np.int32), list(self._topic_codes)

    def partitions(self) -> CodeColumn:
        """The partition of each key."""
        return np.array(self._partition, np.int32)


def decode_key(raw: bytes) -> tuple[str, str, int] | int:
    """Group, topic and partition (WHOLE_GROUP for a record about a group); or SKIPPED or DAMAGED."""
    try:
        (kind,) = struct.unpack_from(">h", raw)
        if kind not in _OFFSETS and kind not in _GROUPS:
            return SKIPPED if kind >= 0 else DAMAGED
        group, at = _string(raw, 2)
        if kind in _GROUPS:
            return (group, "", WHOLE_GROUP) if at == len(raw) else DAMAGED
        topic, at = _string(raw, at)
        (partition,) = struct.unpack_from(">i", raw, at)
    except (struct.error, UnicodeDecodeError, ValueError):
        return DAMAGED
    return (group, topic, partition) if at + 4 == len(raw) and partition >= 0 else DAMAGED


def _string(raw: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", raw, at)
    end = at + 2 + size
    if size < 0 or end > len(raw):
        raise ValueError("a name is truncated")
    return raw[at + 2 : end].decode(), end


def decode_records(records: Records, keys: KeyTable) -> DecodedRecords:
    """Decode the commits and deletions among the records, in order."""
    data = records.data
    places = zip(records.key_start.tolist(), records.key_end.tolist(), strict=True)
    number = np.array([keys[data[start:end]] for start, end in places], np.int32)
    kept = np.flatnonzero(number >= 0)
    has_value = records.value_end[kept] >= 0
    offset = np.zeros(len(kept), np.int64)
    time_ms = records.time_ms[kept]
    whole = np.ones(len(kept), dtype=bool)
    is_offset = keys.partitions()[number[kept]] != WHOLE_GROUP
    valued = np.flatnonzero(has_value & is_offset)
    rows = kept[valued]
    offset[valued], time_ms[valued], whole[valued] = _decode_values(
        data, records.value_start[rows], records.value_end[rows]
    )
    damaged = np.r_[np.flatnonzero(number == DAMAGED), kept[~whole]]
    fine = np.flatnonzero(whole)
    found = kept[fine]
    return DecodedRecords(
        CommitRows(number[found], records.offset[found], offset[fine], has_value[fine], time_ms[fine]),
        records.batch[found],
        int((number == SKIPPED).sum()),
        list(zip(records.batch[damaged].tolist(), records.offset[damaged].tolist(), strict=True)),
    )


def _decode_values(data: bytes, start: IntColumn, end: IntColumn) -> tuple[IntColumn, IntColumn, npt.NDArray[np.bool_]]:
    """Offset and commit time of values, versions 0 to 4, and whether each is valid.

    All begin with version and offset. Versions 3 and 4 have a leader epoch next. Then comes the commit's metadata with a
    length prefix: 16 bits, or a varint of length + 1 in version 4. The commit time follows the metadata.
    """
    octets = np.frombuffer(data or b"\0", np.uint8)
    version = _int16(octets, start)
    offset = _int64(octets, start + 2)
    metadata_at = start + 10 + np.where(version >= 3, 4, 0)
    size = np.maximum(_int16(octets, metadata_at), 0)
    time_at = metadata_at + 2 + size
    compact = np.flatnonzero(version == _NEWEST_VALUE)
    if len(compact):
        size, at = _uvarints(octets, metadata_at[compact])
        time_at[compact] = at + np.maximum(size - 1, 0)
    readable = (version >= 0) & (version <= _NEWEST_VALUE) & (time_at + 8 <= end)
    return offset, _int64(octets, time_at), readable


def _int16(octets: npt.NDArray[np.uint8], at: IntColumn) -> IntColumn:
    high = octets.take(at, mode="clip").astype(np.int8).astype(np.int64)
    return (high << 8) | octets.take(at + 1, mode="clip")


def _int64(octets: npt.NDArray[np.uint8], at: IntColumn) -> IntColumn:
    taken = octets.take(at[:, None] + np.arange(8), mode="clip")
    return taken.view(">i8").ravel().astype(np.int64)


def _uvarints(octets: npt.NDArray[np.uint8], at: IntColumn) -> tuple[IntColumn, IntColumn]:
    value, shift = np.zeros(len(at), np.int64), 0
    at = at.copy()
    more = np.arange(len(at))
    while len(more) and shift < 35:
        octet = octets.take(at[more], mode="clip")
        value[more] |= (octet & 0x7F).astype(np.int64) << shift
        at[more] += 1
        more = more[octet >= 0x80]
        shift += 7
    return value, at
