"""Batches, the catalogue, name filters, durations and sizes as text, the clock watch and packed checkpoints."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.batch import Masked, Texts, conform, decode_rows, encode_rows, make_batch
from lagwatch.catalogue import BUILT_IN, CONSUMER_LAG, SOURCE, TOPIC, Field, Tag
from lagwatch.clock import SettableClock
from lagwatch.name_filter import NameFilter
from lagwatch.pipeline.checkpoint import pack, unpack
from lagwatch.runtime.agent import first_run_delay
from lagwatch.runtime.clock_watch import ClockWatch
from lagwatch.text import duration_text, size_text


def test_every_table_and_field_has_a_name_of_small_letters_and_a_meaning() -> None:
    for table in BUILT_IN:
        columns: list[Tag | Field] = [*table.tags, *table.fields]
        assert len({column.name for column in columns}) == len(columns), table.name
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column.name) and column.meaning for column in columns), table.name


def test_a_column_that_is_not_in_the_catalogue_is_refused() -> None:
    with pytest.raises(ValueError, match="table topic has no column colour"):
        make_batch(TOPIC, "east", 0, {"topic": ["a"], "colour": ["red"]})


def test_columns_that_are_not_given_are_absent_and_never_zero() -> None:
    row = make_batch(TOPIC, "east", 0, {"topic": ["a"]}).rows.to_pylist()[0]
    assert row.pop("topic") == "a"
    assert set(row.values()) == {None}


@given(st.lists(st.tuples(st.text(), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=20))
def test_rows_come_back_from_bytes_as_they_went(rows: list[tuple[str, int | None]]) -> None:
    texts = sorted({text for text, _ in rows})
    batch = make_batch(
        CONSUMER_LAG,
        "east",
        0,
        {
            "group": Texts(np.array([texts.index(text) for text, _ in rows], np.int32), texts),
            "topic": ["t"] * len(rows),
            "partition": list(range(len(rows))),
            "committed_offset": Masked(
                np.array([value or 0 for _, value in rows], np.int64), np.array([v is not None for _, v in rows], bool)
            ),
        },
    )
    back = decode_rows(encode_rows(batch.rows))
    assert back["group"].to_pylist() == [text for text, _ in rows]
    assert back["committed_offset"].to_pylist() == [value for _, value in rows]


def test_rows_of_an_older_schema_lack_the_fields_added_since() -> None:
    old = make_batch(TOPIC, "east", 0, {"topic": ["a"], "partitions": [3]}).rows.select(["topic", "partitions"])
    today = conform(old, TOPIC)
    assert today.schema == TOPIC.schema
    assert today.to_pylist()[0]["partitions"] == 3


def test_batches_of_a_checkpoint_come_back_whole() -> None:
    batches = [make_batch(TOPIC, "east", at, {"topic": [f"a\n{at}"]}) for at in range(3)]
    assert unpack(pack(batches)) == batches


@pytest.mark.parametrize(
    ("name", "watched"),
    [("orders", True), ("orders.dlq", False), ("my-orders", False), ("orders\n2", True)],
)
def test_patterns_match_whole_names(name: str, watched: bool) -> None:
    assert NameFilter(["orders.*"], [r".*\.dlq"])(name) is watched


def test_every_name_is_watched_by_default_even_one_with_a_newline() -> None:
    assert NameFilter()("a\nb")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.44, "0.4s"), (9, "9s"), (90, "1m30s"), (3600, "1h"), (7201, "2h"), (273_600, "3d4h")],
)
def test_a_duration_text_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_size_text_uses_the_largest_unit_that_fits() -> None:
    assert [size_text(size) for size in (12, 2048, 1.4 * 2**30, 3 * 2**30, 5 * 2**40)] == [
        "12 B",
        "2.0 KiB",
        "1.4 GiB",
        "3.0 GiB",
        "5.0 TiB",
    ]


def test_the_watch_distinguishes_a_clock_step_from_elapsed_time() -> None:
    clock = SettableClock()
    steps: list[float] = []
    watch = ClockWatch(clock, steps.append)

    clock.advance(500)
    watch.check()
    clock.step_wall(1.5)  # what time servers do all day
    watch.check()
    clock.advance(1)
    clock.step_wall(-3600)
    watch.check()
    clock.step_wall(3600)
    watch.check()

    assert steps == [-3600, 3600]


def test_first_runs_are_spread_by_name_and_always_the_same() -> None:
    delays = [first_run_delay(f"cluster{number}/kafka", 10) for number in range(20)]
    assert len(set(delays)) == 20
    assert all(0 <= delay < 2 for delay in delays)
    assert first_run_delay("east/kafka", 10) == first_run_delay("east/kafka", 10)


def test_a_checkpoint_of_an_older_version_gets_todays_columns() -> None:
    saved = make_batch(SOURCE, "east", 5, {"source": ["kafka"], "target": [""], "up": [True]}, source="kafka")
    older = replace(saved, rows=saved.rows.select(["source", "target", "up"]))
    own = replace(older, table="windows")
    restored = unpack(pack([older, own]))
    assert restored[0] == saved
    assert restored[1].rows.schema.names == ["source", "target", "up"], "what is no table stays as it was saved"
