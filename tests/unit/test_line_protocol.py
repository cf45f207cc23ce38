"""Batches as line protocol."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.batch import make_batch
from lagwatch.catalogue import AGENT, BUILT_IN, CONSUMER_LAG, SOURCE, TOPIC, UserField, with_user_fields
from lagwatch.sinks.influx.line_protocol import encode_lines, escape_tag


def lines(table: Any, columns: dict[str, Any], tags: dict[str, str] | None = None, cluster: str = "east") -> list[str]:
    encoded = encode_lines(make_batch(table, cluster, 1234, columns), table, tags or {})
    assert b"".join(bytes(encoded.slice(n, n + 1)) for n in range(len(encoded))) == bytes(encoded.body)
    return bytes(encoded.body).decode().splitlines()


def test_a_row_is_one_line_with_tags_in_order_and_typed_fields() -> None:
    row = {"group": ["g"], "topic": ["t"], "partition": [3], "committed_offset": [7], "lag": [2]}
    assert lines(CONSUMER_LAG, row | {"seconds_since_moved": [1.26], "stale": [False]}) == [
        (
            "consumer_lag,cluster=east,group=g,partition=3,topic=t "
            "committed_offset=7i,lag=2i,seconds_since_moved=1.3,stale=false 1234"
        )
    ]


def test_what_is_not_known_is_left_out_and_a_row_of_nothing_makes_no_line() -> None:
    columns = {"topic": ["a", "b", "c"], "partitions": [1, None, None], "min_isr": [None, None, 2]}
    assert lines(TOPIC, columns) == [
        "topic,cluster=east,topic=a partitions=1i 1234",
        "topic,cluster=east,topic=c min_isr=2i 1234",
    ]


def test_extra_tags_are_on_every_point_but_never_replace_our_own() -> None:
    assert lines(TOPIC, {"topic": ["a"], "partitions": [1]}, {"site": "eu 1", "topic": "forged", "empty": ""}) == [
        r"topic,cluster=east,site=eu\ 1,topic=a partitions=1i 1234"
    ]


def test_a_table_without_cluster_has_no_cluster_tag() -> None:
    assert lines(AGENT, {"agent": ["a"], "job": [""], "memory_bytes": [5]}, cluster="") == [
        "agent,agent=a memory_bytes=5i 1234"
    ]


def test_texts_are_quoted_and_numbers_that_are_none_are_left_out() -> None:
    columns = {"source": ["k"], "target": ["b"], "error": ['say "no" \\'], "duration_seconds": [math.nan], "up": [True]}
    assert lines(SOURCE, columns) == [r'source,cluster=east,source=k,target=b up=true,error="say \"no\" \\" 1234']


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20), unique=True, max_size=20)
)
def test_no_two_names_become_one_and_none_leaves_its_place(names: list[str]) -> None:
    escaped = [escape_tag(name) for name in names]
    assert len(set(escaped)) == len(names)
    assert all("\n" not in text and not text.endswith("\\") for text in escaped)


@pytest.mark.parametrize(
    "table", [table for table in BUILT_IN if table.name != "rejected"], ids=lambda table: table.name
)
def test_every_table_can_be_empty(table: Any) -> None:
    columns: dict[str, list[Any]] = {tag.name: [] for tag in table.tags if tag.name != "cluster"}
    if columns:
        assert lines(table, columns) == []


def test_a_users_own_field_is_written_where_a_row_has_it() -> None:
    tables = with_user_fields(BUILT_IN, [UserField("broker", "mine", (), False, "mine", "")])
    ours = make_batch(tables["broker"], "east", 5, {"broker": [1], "mine": [2.5]})
    others = make_batch(BUILT_IN["broker"], "east", 5, {"broker": [1], "leaders": [3]})
    assert bytes(encode_lines(ours, tables["broker"], {}).body) == b"broker,broker=1,cluster=east mine=2.5 5\n"
    assert bytes(encode_lines(others, tables["broker"], {}).body) == b"broker,broker=1,cluster=east leaders=3i 5\n"
    assert len(encode_lines(ours, BUILT_IN["broker"], {})) == 0, "a field that is no longer configured makes no point"
