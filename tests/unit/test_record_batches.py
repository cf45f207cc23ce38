"""Kafka's log format: every codec is decoded, and damage affects only the damaged batch."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from collectors.kafka_decode import codecs
from collectors.kafka_decode.codecs import CodecError, decompress
from collectors.kafka_decode.record_batches import scan_batches
from collectors.kafka_decode.record_columns import ABORT, COMMIT, NO_MARKER, Records, read_markers, read_records
from tests.harness.offsets_records import CONTROL, LOG_APPEND_TIME, batch, heads_of, marker, record, records_in

Found = list[tuple[int, int, bytes, bytes | None]]
octets = st.binary(max_size=200)


def read(data: bytes) -> Found:
    """Offset, time, key and value of all that is found; nothing is damaged."""
    scan = scan_batches(data, 0, len(data), 7)
    records = read_records(data, heads_of(data, 7))
    assert (scan.damaged, scan.stuck, records.damaged) == ([], False, [])
    return found(records)


def found(records: Records) -> Found:
    columns = (
        records.offset,
        records.time_ms,
        records.key_start,
        records.key_end,
        records.value_start,
        records.value_end,
    )
    return [
        (offset, time_ms, records.data[key:key_end], None if value_end < 0 else records.data[value:value_end])
        for offset, time_ms, key, key_end, value, value_end in zip(*(c.tolist() for c in columns), strict=True)
    ]  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.lists(st.tuples(octets, st.none() | octets, st.integers(-(2**20), 2**20)), min_size=1, max_size=70),
        ),
        max_size=4,
    ),
    st.sampled_from([0, 1]),
    st.sampled_from([1, 40]),  # both ways of finding records
)
def test_it_reads_what_kafka_python_wrote_as_kafka_python_reads_it(
    batches: list[tuple[int, list[tuple[bytes, bytes | None, int]]]], codec: int, copies: int
) -> None:
    parts = [_built(base, records, codec) for base, records in batches] * copies
    assert read(b"".join(parts)) == [one for part in parts for one in records_in(part)]


def _built(base: int, records: Sequence[tuple[bytes, bytes | None, int]], codec: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 10**9)
    for number, (key, value, time_delta) in enumerate(records):
        builder.append(number, 1_700_000_000_000 + time_delta, key, value, [])
    return struct.pack(">q", base) + bytes(builder.build())[8:]


@pytest.mark.parametrize("cut", range(1, 130, 7))
def test_a_batch_cut_off_by_a_full_answer_comes_with_the_next_one(cut: int) -> None:
    whole = batch(10, [(b"a", b"1"), (b"b", None)])
    data = whole + batch(12, [(b"c" * 60, b"2")])[:-cut]
    scan = scan_batches(data, 0, len(data), 0)
    assert (scan.starts, scan.next_offset) == ([0], 12)
    assert not scan.damaged


def test_compaction_leaves_gaps_and_the_next_offset_is_after_the_last_one_there_was() -> None:
    data = batch(10, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    thinned = data[:57] + struct.pack(">i", 1) + record(1, 1, b"b", b"2")
    thinned = data[:8] + struct.pack(">i", len(thinned) - 12) + thinned[12:]
    scan = scan_batches(thinned, 0, len(thinned), 0)
    assert (read(thinned), scan.next_offset) == ([(11, 1001, b"b", b"2")], 13)


def test_times_are_the_brokers_where_the_topic_says_so() -> None:
    data = batch(0, [(b"a", b""), (b"b", b"")], time_ms=5_000, attributes=LOG_APPEND_TIME)
    assert [time_ms for _, time_ms, _, _ in read(data)] == [5_001, 5_001]


def _xerial(data: bytes) -> bytes:
    blocks = [pa.compress(data[at : at + 50], codec="snappy", asbytes=True) for at in range(0, len(data), 50)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def _streamed(data: bytes, name: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


PACKED = {
    "gzip": (1, gzip.compress),
    "snappy": (2, _xerial),
    "plain snappy": (2, lambda data: pa.compress(data, codec="snappy", asbytes=True)),
    "lz4": (3, lambda data: _streamed(data, "lz4")),
    "zstd": (4, lambda data: _streamed(data, "zstd")),
}


@pytest.mark.parametrize("codec", PACKED)
def test_every_codec_is_unpacked_in_the_midst_of_plain_batches(codec: str) -> None:
    number, pack = PACKED[codec]
    many = [(f"key-{n}".encode(), b"v" * n) for n in range(100)]
    body = b"".join(record(n, n, *one) for n, one in enumerate(many))
    data = batch(0, [(b"a", b"")]) + batch(1, many, attributes=number, packed=pack(body)) + batch(101, [(b"z", b"")])
    assert [(key, value) for _, _, key, value in read(data)] == [(b"a", b""), *many, (b"z", b"")]


@pytest.mark.parametrize("codec", PACKED)
def test_a_batch_that_cannot_be_decompressed_is_reported_and_skipped(codec: str) -> None:
    number, pack = PACKED[codec]
    packed = pack(b"x" * 500)[:-3]
    data = batch(0, [(b"a", b"")]) + batch(1, [(b"b", b"")], attributes=number, packed=packed) + batch(2, [(b"c", b"")])
    records = read_records(data, heads_of(data, 7))
    assert [key for _, _, key, _ in found(records)] == [b"a", b"c"]
    [place] = records.damaged
    assert place.startswith(f"7@1 (invalid {codec.removeprefix('plain ')} data")


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(CodecError, match="unknown compression 6"):
        decompress(6, b"")


def test_a_small_batch_cannot_exhaust_memory() -> None:
    with pytest.raises(CodecError, match="more than 64 MiB"):
        decompress(1, gzip.compress(bytes(65 * 1024 * 1024), 1))
    with pytest.raises(CodecError, match="too large"):
        decompress(2, b"\xff\xff\xff\xff\x0f")


def test_markers_end_transactions_and_hold_no_records() -> None:
    data = marker(5, 9, commit=True) + marker(6, 9, commit=False) + batch(7, [(b"\0\0", b"")], attributes=CONTROL)
    batches = heads_of(data)
    assert read_markers(data, batches).tolist() == [COMMIT, ABORT, NO_MARKER]
    assert batches.producer.tolist() == [9, 9, -1]
    assert read(data) == []


def test_the_format_before_kafka_0_11_is_reported_and_skipped() -> None:
    old = struct.pack(">qiIbb", 3, 14, 0, 1, 0) + bytes(8)
    data = old + batch(4, [(b"a", b"")])
    scan = scan_batches(data, 0, len(data), 2)
    assert (scan.damaged, scan.next_offset) == (["2@3 (a format older than Kafka 0.11)"], 5)
    assert heads_of(data).base_offset.tolist() == [4]


def test_an_impossible_length_ends_decoding_and_is_reported() -> None:
    data = batch(0, [(b"a", b"")]) + struct.pack(">qiibI", 1, -5, 0, 2, 0) + bytes(100)
    scan = scan_batches(data, 0, len(data), 0)
    assert (scan.stuck, scan.damaged, scan.starts) == (True, ["0@1"], [0])


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (record(1, 1, None, b"v"), "no key"),
        (record(1, 1, b"k", b"v")[:4] + b"\x50" + record(1, 1, b"k", b"v")[5:], "a key longer than the record"),
        (record(1, 1, b"k", b"v")[:6] + b"\x50" + record(1, 1, b"k", b"v")[7:], "a value longer than the record"),
        (b"\x02\x00", "a record too short for any field"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_record_that_makes_no_sense_is_counted_and_its_neighbours_are_read(broken: bytes, why: str) -> None:
    body = record(0, 0, b"a", b"1") + broken + record(2, 2, b"c", b"3")
    data = batch(20, [(b"", b"")] * 3, packed=body)
    records = read_records(data, heads_of(data, 4))
    assert [key for _, _, key, _ in found(records)] == [b"a", b"c"], why
    [place] = records.damaged
    assert place.startswith("4@")


def test_a_record_beyond_its_batch_loses_the_rest_of_the_batch() -> None:
    data = batch(20, [(b"", b"")] * 3, packed=record(0, 0, b"a", b"1") + b"\xff\xff\xff\xff\xff\xff") + batch(
        23, [(b"z", b"")]
    )
    records = read_records(data, heads_of(data, 4))
    assert [key for _, _, key, _ in found(records)] == [b"a", b"z"]
    assert records.damaged == ["4@20 (2 records)"]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damage_never_raises(data: st.DataObject) -> None:
    good = batch(0, [(b"key", b"value"), (b"k" * 70, None)]) + batch(
        2, [(b"a", b"b")], attributes=data.draw(st.integers(0, 63))
    )
    spoilt = bytearray(good)
    for place in data.draw(st.lists(st.integers(0, len(good) - 1), max_size=12)):
        spoilt[place] = data.draw(st.integers(0, 255))
    raw = bytes(spoilt)
    for many in (raw, raw * 40):  # both ways of finding records
        read_records(many, heads_of(many))
        read_markers(many, heads_of(many))


def test_a_codec_that_this_pyarrow_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "pa", SimpleNamespace(Codec=SimpleNamespace(is_available=lambda _: False)))
    with pytest.raises(CodecError, match="this pyarrow was built without zstd"):
        decompress(4, b"")


def test_a_snappy_block_whose_size_never_ends_is_refused() -> None:
    with pytest.raises(CodecError, match="invalid snappy data: a block is too large"):
        decompress(2, b"\xff" * 9)
