"""Decodes the records of many batches to columns with the positions of all keys and values.

A record has only a length prefix, so the second cannot be found before the first. numpy reads the first record of every
batch at once, then the second of each, and so on; once few batches have records left, Python steps through those.
An invalid record is reported as damaged and affects no other record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.codecs import CodecError, decompress
from collectors.kafka_decode.reader import CodeColumn, IntColumn
from collectors.kafka_decode.record_batches import BatchHeaders

_MIN_RECORD_BYTES = 2  # bounds the memory a damaged record count can claim
_FEW_BATCHES = 64  # up to this many a loop is faster than numpy
ABORT, COMMIT, NO_MARKER = 0, 1, -1

Octets = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Records:
    """Records in order, with the number of their batch. Starts and ends are positions in `data`; null values end at -1."""

    data: bytes
    batch: CodeColumn
    offset: IntColumn
    time_ms: IntColumn
    key_start: IntColumn
    key_end: IntColumn
    value_start: IntColumn
    value_end: IntColumn
    damaged: list[str]


@dataclass(slots=True)
class _Spans:
    """The positions of some batches' records, with the number of each batch."""

    data: bytes
    number: IntColumn
    start: IntColumn
    end: IntColumn
    records: IntColumn


def read_records(data: bytes, batches: BatchHeaders) -> Records:
    """Read all records except those of control batches."""
    damaged: list[str] = []
    number = np.flatnonzero(~batches.is_control)
    spans = _Spans(data, number, batches.start[number], batches.end[number], batches.records[number])
    _decompress(spans, batches, damaged)
    return _columns(spans, batches, damaged)


def read_markers(data: bytes, batches: BatchHeaders) -> IntColumn:
    """The marker in each control batch, ABORT or COMMIT; NO_MARKER for all other batches."""
    markers = np.full(len(batches), NO_MARKER, np.int64)
    number = np.flatnonzero(batches.is_control)
    spans = _Spans(data, number, batches.start[number], batches.end[number], batches.records[number])
    found = _columns(spans, batches, [])
    whole = found.key_end - found.key_start >= 4  # a version and the kind, two bytes each
    kind = np.frombuffer(data or b"\0", np.uint8).take(found.key_start + 3, mode="clip").astype(np.int64)
    markers[found.batch] = np.where(whole & (kind <= COMMIT), kind, NO_MARKER)
    return markers


def _decompress(spans: _Spans, batches: BatchHeaders, damaged: list[str]) -> None:
    """Append the decompressed records of compressed batches to the data, and point their spans there."""
    codec = batches.codec[spans.number]
    if not codec.any():
        return
    parts, size = [spans.data], len(spans.data)
    for row in np.flatnonzero(codec).tolist():
        try:
            records = decompress(int(codec[row]), spans.data[spans.start[row] : spans.end[row]])
        except CodecError as error:
            damaged.append(f"{batches.position(spans.number[row])} ({error})")
            records, spans.records[row] = b"", 0
        spans.start[row], spans.end[row] = size, size + len(records)
        parts.append(records)
        size += len(records)
    spans.data = b"".join(parts)


def _record_bounds(octets: Octets, spans: _Spans) -> tuple[IntColumn, IntColumn, IntColumn]:
    """The span row, start and end of each record that fits its batch."""
    count = np.clip(spans.records, 0, (spans.end - spans.start) // _MIN_RECORD_BYTES)
    first = np.cumsum(count) - count
    starts, ends = np.zeros(int(count.sum()), np.int64), np.full(int(count.sum()), -1, np.int64)
    at, step = spans.start.copy(), 0
    unfinished = np.flatnonzero(count)
    while len(unfinished) > _FEW_BATCHES:
        size, begin = _varints(octets, at[unfinished])
        end = begin + size
        fits = (size >= 0) & (end <= spans.end[unfinished])
        rows = first[unfinished] + step
        starts[rows], ends[rows] = begin, np.where(fits, end, -1)
        at[unfinished] = end
        step += 1
        unfinished = unfinished[fits & (count[unfinished] > step)]
    for batch in unfinished.tolist():
        rows_left = range(int(first[batch]) + step, int(first[batch] + count[batch]))
        _find_records(spans.data, int(at[batch]), int(spans.end[batch]), starts, ends, rows_left)
    found = np.flatnonzero(ends >= 0)
    return np.repeat(np.arange(len(count)), count)[found], starts[found], ends[found]


def _find_records(data: bytes, at: int, end: int, starts: IntColumn, ends: IntColumn, rows: range) -> None:
    begins: list[int] = []
    stops: list[int] = []
    for _ in rows:
        if at >= end:
            break
        size = data[at]
        at += 1
        if size >= 0x80:
            size, at = _long_varint(data, at, size, end)
        begins.append(at)
        at += size >> 1  # zigzag; a length is never negative
        stops.append(at)
    if stops and stops[-1] > end:
        begins.pop()
        stops.pop()
    starts[rows.start : rows.start + len(begins)] = begins
    ends[rows.start : rows.start + len(stops)] = stops


def _long_varint(data: bytes, at: int, first: int, end: int) -> tuple[int, int]:
    value, shift = first & 0x7F, 7
    while at < end and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 2 * len(data), at  # invalid: longer than any batch


def _columns(spans: _Spans, batches: BatchHeaders, damaged: list[str]) -> Records:
    octets: Octets = np.frombuffer(spans.data or b"\0", np.uint8)
    row, start, end = _record_bounds(octets, spans)
    missing = spans.records - np.bincount(row, minlength=len(spans.number))
    damaged += [f"{batches.position(spans.number[at])} ({missing[at]} records)" for at in np.flatnonzero(missing > 0)]
    time_delta, at = _varints(octets, start + 1)  # after the attributes, which are unused
    offset_delta, at = _varints(octets, at)
    key_size, key_start = _varints(octets, at)
    has_key = (key_size >= 0) & (key_size <= end - key_start)
    key_end = key_start + np.where(has_key, key_size, 0)
    value_size, value_start = _varints(octets, key_end)
    is_null = value_size < 0
    whole = has_key & (value_start <= end) & (is_null | (value_size <= end - value_start))
    batch = spans.number[row]
    offset = batches.base_offset[batch] + offset_delta
    damaged += [batches.position(batch[at], offset[at]) for at in np.flatnonzero(~whole)]
    time_ms = np.where(batches.has_broker_time, batches.max_ms, batches.first_ms)[batch]
    time_ms += np.where(batches.has_broker_time[batch], 0, time_delta)
    value_end = np.where(is_null, -1, value_start + value_size)
    columns = (batch.astype(np.int32), offset, time_ms, key_start, key_end, value_start, value_end)
    if not whole.all():
        columns = tuple(column[whole] for column in columns)  # type: ignore[assignment]
    return Records(spans.data, *columns, damaged)


def _varints(octets: Octets, at: IntColumn) -> tuple[IntColumn, IntColumn]:
    """The zigzag varint at each position, and the position after it. Never reads out of bounds, even if data is damaged."""
    octet = octets.take(at, mode="clip")
    value = (octet & 0x7F).astype(np.int64)
    at = at + 1
    more = np.flatnonzero(octet >= 0x80)
    shift = 7
    while len(more) and shift < 64:
        octet = octets.take(at[more], mode="clip")
        value[more] |= (octet & 0x7F).astype(np.int64) << shift
        at[more] += 1
        more = more[octet >= 0x80]
        shift += 7
    return (value >> 1) ^ -(value & 1), at
