"""Decoding records of the offsets topic: every version, deletions, and records that cannot be decoded."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.kafka_decode.offsets_topic import (
    DAMAGED,
    SKIPPED,
    WHOLE_GROUP,
    CommitRows,
    DecodedRecords,
    KeyTable,
    decode_key,
    decode_records,
)
from collectors.kafka_decode.record_columns import read_records
from collectors.kafka_rows.commits import commit_batch, without_conversions
from tests.harness.offsets_records import Record, batch, group_key, heads_of, offset_key, offset_value, uvarint

TIME = 1_700_000_000_123
HOSTILE = ["", " ", "a,b=c", "new\nline", "quote\"'", "naïve ☃ 🦆", "x" * 249, "null\0byte", "\\", "a" * 30_000]
TOPIC_ID = (0, bytes(range(16)))


def every(_: str) -> bool:
    return True


def decode(records: Sequence[Record], keys: KeyTable | None = None, base: int = 100) -> tuple[DecodedRecords, KeyTable]:
    keys = keys if keys is not None else KeyTable(every, every)
    data = batch(base, records, time_ms=TIME)
    return decode_records(read_records(data, heads_of(data)), keys), keys


def rows(records: Sequence[Record], keys: KeyTable | None = None) -> list[tuple[Any, ...]]:
    """Group, topic, partition, offset, time and order, as they reach the pipeline."""
    decoded, keys = decode(records, keys)
    assert decoded.damaged == []
    return as_rows(without_conversions(decoded.rows, keys), keys)


def as_rows(found: CommitRows, keys: KeyTable) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in commit_batch("east", 0, found, keys).rows.to_pylist()]


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("note", ["", "x", "é" * 20, "n" * 126, "n" * 127, "n" * 128, "n" * 4096, "n" * 20_000])
def test_every_version_of_a_commit_is_read_with_any_metadata(version: int, note: str) -> None:
    value = offset_value(version, 2**53 + 1, TIME - 7, note)
    assert rows([(offset_key("g", "t", 4), value)]) == [("g", "t", 4, 2**53 + 1, TIME - 7, 100)]


@pytest.mark.parametrize("tagged", [[TOPIC_ID], [TOPIC_ID, (9, b"later" * 50)]])
def test_fields_that_later_kafkas_add_to_version_4_do_no_harm(tagged: list[tuple[int, bytes]]) -> None:
    value = offset_value(4, 17, TIME, "note", tagged)
    assert rows([(offset_key("g", "t", 0), value)]) == [("g", "t", 0, 17, TIME, 100)]


@pytest.mark.parametrize("group", HOSTILE)
@pytest.mark.parametrize("version", [0, 1])
def test_any_name_comes_through(group: str, version: int) -> None:
    key = offset_key(group, "t.☃", 2**20 - 1, version)
    assert rows([(key, offset_value(3, 1, TIME))]) == [(group, "t.☃", 2**20 - 1, 1, TIME, 100)]


def test_commits_of_one_partition_all_stay_in_their_order() -> None:
    key = offset_key("g", "t", 0)
    records = [(key, offset_value(1 + n % 4, 1000 - n, TIME + n)) for n in range(150)]
    assert rows(records) == [("g", "t", 0, 1000 - n, TIME + n, 100 + n) for n in range(150)]


def test_a_deleted_commit_is_a_row_without_offset_and_with_the_time_of_its_deletion() -> None:
    key = offset_key("g", "t", 0)
    assert rows([(key, offset_value(3, 5, 1)), (key, None)]) == [
        ("g", "t", 0, 5, 1, 100),
        ("g", "t", 0, None, TIME + 1, 101),
    ]


@pytest.mark.parametrize("kind", [2, 3, 17])
def test_a_deleted_group_is_a_row_without_topic(kind: int) -> None:
    assert rows([(offset_key("g", "t", 0), None), (group_key("g", kind), None)]) == [
        ("g", "t", 0, None, TIME, 100),
        ("g", "", WHOLE_GROUP, None, TIME + 1, 101),
    ]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (2, 17)])
def test_a_group_that_changes_its_protocol_is_not_gone(before: int, after: int) -> None:
    commit = (offset_key("g", "t", 0), offset_value(3, 5, TIME))
    records = [
        commit,
        (group_key("g", before), None),
        (group_key("g", after), b"\0\0anything"),
        (group_key("h", 2), None),
    ]
    assert rows(records) == [("g", "t", 0, 5, TIME, 100), ("h", "", WHOLE_GROUP, None, TIME + 3, 103)]


def test_metadata_of_a_live_group_makes_no_row() -> None:
    assert rows([(group_key("g"), b"\0\3anything")]) == []


@pytest.mark.parametrize("kind", [4, 5, 8, 10, 11, 16, 20, 99])
def test_records_of_other_kinds_are_skipped_and_counted(kind: int) -> None:
    other = struct.pack(">h", kind) + b"whatever comes"
    decoded, _ = decode([(other, b"x"), (offset_key("g", "t", 0), offset_value(0, 1, TIME)), (other, None)])
    assert (len(decoded.rows), decoded.skipped, decoded.damaged) == (1, 2, [])


GOOD_KEY = offset_key("group", "topic", 3)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0",
        GOOD_KEY[:-1],
        GOOD_KEY + b"\0",
        GOOD_KEY[:6],
        b"\xff\xff" + GOOD_KEY[2:],
        group_key("g") + b"x",
        struct.pack(">hh", 1, -1),
        struct.pack(">hh", 1, 3) + b"\xff\xfe\xfd" + GOOD_KEY[9:],
        offset_key("g", "t", -2),
    ],
)
def test_a_key_that_makes_no_sense_is_damaged(raw: bytes) -> None:
    assert decode_key(raw) == DAMAGED


GOOD_VALUE = offset_value(3, 5, TIME, "note")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        GOOD_VALUE[:9],
        GOOD_VALUE[:-1],
        b"\0\5" + GOOD_VALUE[2:],
        b"\xff\xff" + GOOD_VALUE[2:],
        offset_value(4, 5, TIME, "note")[:14] + b"\xff" * 30,
        offset_value(4, 5, TIME)[:14] + uvarint(2**34) + bytes(20),
    ],
)
def test_a_value_that_makes_no_sense_is_counted_and_the_rest_is_read(value: bytes) -> None:
    good = (GOOD_KEY, GOOD_VALUE)
    decoded, keys = decode([good, (GOOD_KEY, value), good])
    assert decoded.damaged == [(0, 101)]
    assert [row[-1] for row in as_rows(decoded.rows, keys)] == [100, 102]


@pytest.mark.parametrize(
    ("watch_group", "watch_topic", "expected"),
    [
        (lambda g: g == "a", every, [("a", "t"), ("a", "u"), ("a", "")]),
        (every, lambda t: t == "t", [("a", "t"), ("b", "t"), ("a", ""), ("b", "")]),
    ],
)
def test_only_what_is_watched_makes_rows(
    watch_group: Callable[[str], bool], watch_topic: Callable[[str], bool], expected: list[tuple[str, str]]
) -> None:
    value = offset_value(3, 1, TIME)
    records: list[Record] = [(offset_key(group, topic, 0), value) for topic in "tu" for group in "ab"]
    records += [(group_key("a"), None), (group_key("b"), None)]
    for _ in range(2):  # the second time from what is remembered of the keys
        assert [row[:2] for row in rows(records, KeyTable(watch_group, watch_topic))] == expected


names = st.text(max_size=20)
commits = st.tuples(
    st.sampled_from([0, 1]),
    names,
    names,
    st.integers(0, 2**31 - 1),
    st.none()
    | st.tuples(
        st.integers(0, 4), st.integers(-1, 2**63 - 1), st.integers(0, 2**63 - 1 - 86_400_000), st.text(max_size=300)
    ),
)


@settings(deadline=None)
@given(st.lists(commits, max_size=40))
def test_what_was_committed_is_what_is_read(
    made: list[tuple[int, str, str, int, tuple[int, int, int, str] | None]],
) -> None:
    records = [
        (offset_key(group, topic, partition, kind), value and offset_value(*value))
        for kind, group, topic, partition, value in made
    ]
    assert rows(records) == [
        (group, topic, partition, *((value[1], value[2]) if value else (None, TIME + at)), 100 + at)
        for at, (_, group, topic, partition, value) in enumerate(made)
    ]


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_at_all_are_a_row_or_counted(key: bytes, value: bytes) -> None:
    decoded, _ = decode([(key, value)])
    assert len(decoded.rows) + decoded.skipped + len(decoded.damaged) == 1
    assert (decode_key(key) == SKIPPED) == (decoded.skipped == 1)


def test_rows_keep_their_meaning_when_keys_are_renumbered() -> None:
    decoded, keys = decode([(offset_key("g", t, p), offset_value(3, p, TIME)) for t in "tu" for p in range(3)])
    others = keys.emptied()
    assert others[offset_key("other", "t", 0)] == 0
    moved = keys.renumber(decoded.rows, others)
    assert as_rows(moved, others) == as_rows(decoded.rows, keys)
