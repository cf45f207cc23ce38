"""Which rows go to InfluxDB, how often, and at which level of detail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lagwatch.batch import Batch, Column, make_batch
from lagwatch.catalogue import CLUSTER, CONSUMER_LAG, TOPIC_PARTITION
from lagwatch.sinks.influx.row_filter import RowFilter, TableRule, sum_by_topic


def lag(at_ms: int = 0, rows: int = 4) -> Batch:
    columns: dict[str, Any] = {
        "group": [f"g{n % 2}" for n in range(rows)],
        "topic": [f"t{n // 2}" for n in range(rows)],
        "partition": list(range(rows)),
        "lag": [None if n == 3 else n + 1 for n in range(rows)],
        "seconds_since_moved": [10.0 - n for n in range(rows)],
        "stale": [n == 0 for n in range(rows)],
    }
    return make_batch(CONSUMER_LAG, "east", at_ms, columns)


def test_a_table_goes_once_in_its_time_whichever_poll_comes_first() -> None:
    row_filter = RowFilter({"consumer_lag": TableRule(every_seconds=30)}, 1000)
    chosen = [bool(row_filter.apply([lag(seconds * 1000)])) for seconds in (5, 15, 25, 31, 59, 60)]
    assert chosen == [True, False, False, True, False, True]


def test_a_poll_that_comes_again_or_in_parts_is_chosen_again() -> None:
    row_filter = RowFilter({"consumer_lag": TableRule(every_seconds=30)}, 1000)
    assert [bool(row_filter.apply([lag(5000)])) for _ in range(3)] == [True, True, True]
    assert not row_filter.apply([lag(15_000)])


def test_backlog_and_live_polls_that_alternate_do_not_disturb_each_other() -> None:
    row_filter = RowFilter({"consumer_lag": TableRule(every_seconds=30)}, 1000)
    times = [900, 5, 910, 15, 931, 25]
    assert [bool(row_filter.apply([lag(second * 1000)])) for second in times] == [True, True, False, False, True, False]


def test_rows_of_one_job_do_not_displace_rows_of_another_in_the_same_table() -> None:
    row_filter = RowFilter({"topic_partition": TableRule(every_seconds=30)}, 1000)

    def goes(at_ms: int, source: str) -> bool:
        columns: dict[str, Column] = {"topic": ["t"], "partition": [0], "size_bytes": [1]}
        return bool(row_filter.apply([make_batch(TOPIC_PARTITION, "east", at_ms, columns, source=source)]))

    assert [goes(at, "kafka") for at in (0, 10_000, 0)] == [True, False, True]
    assert [goes(at, "kafka_logdirs") for at in (10_700, 20_700)] == [True, False]
    assert [goes(30_000, "kafka_logdirs"), goes(31_000, "kafka")] == [True, True]


def test_series_that_two_jobs_write_count_once() -> None:
    row_filter = RowFilter({}, max_series=5)
    columns: dict[str, Column] = {"topic": ["t"] * 3, "partition": [0, 1, 2]}
    for at_ms, source in ((0, "kafka"), (0, "kafka_logdirs"), (10_000, "kafka")):
        row_filter.apply([make_batch(TOPIC_PARTITION, "east", at_ms, columns, source=source)])
    assert not row_filter.over_cap
    row_filter.apply([make_batch(TOPIC_PARTITION, "west", 0, columns, source="kafka")])
    assert row_filter.over_cap


def test_rows_that_are_off_do_not_go_and_other_tables_do() -> None:
    row_filter = RowFilter({"consumer_lag": TableRule(rows="off")}, 1000)
    cluster = make_batch(CLUSTER, "east", 0, {"brokers": [3]})
    assert row_filter.apply([lag(), cluster]) == [cluster]


def test_sums_by_topic_say_what_they_cover() -> None:
    assert sum_by_topic(lag()).rows.to_pylist() == [
        _row("g0", "t0", 1, 1, 0, 1, 10.0),
        _row("g0", "t1", 3, 3, 0, 0, 8.0),
        _row("g1", "t0", 2, 2, 0, 0, 9.0),
        _row("g1", "t1", 0, 0, 1, 0, 7.0),
    ]
    assert len(sum_by_topic(lag(rows=0))) == 0


def _row(group: str, topic: str, total: int, largest: int, unknown: int, stale: int, still: float) -> dict[str, object]:
    return {
        "group": group,
        "topic": topic,
        "partitions": 1,
        "total_lag": total,
        "max_lag": largest,
        "unknown_lag_partitions": unknown,
        "stale_partitions": stale,
        "seconds_since_moved": still,
    }


def test_over_the_cap_partitions_become_sums_loudly_and_come_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    row_filter = RowFilter({}, 100)
    partitions = make_batch(TOPIC_PARTITION, "east", 0, {"topic": ["t"], "partition": [0]})
    tables = [
        [batch.table for batch in row_filter.apply([lag(at_ms, rows), partitions])]
        for at_ms, rows in enumerate((90, 200, 95, 50))
    ]
    assert tables == [
        ["consumer_lag", "topic_partition"],
        ["consumer_topic"],
        ["consumer_topic"],
        ["consumer_lag", "topic_partition"],
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "influxdb.max_series" in caplog.records[0].getMessage()


def test_a_part_of_a_poll_is_not_taken_for_the_whole() -> None:
    """What InfluxDB refuses is sent again in halves, which alone would fit below the cap."""
    row_filter = RowFilter({}, 3)
    whole = lag()
    assert [batch.table for batch in row_filter.apply([whole])] == ["consumer_topic"]
    half = replace(whole, rows=whole.rows.slice(0, 1))
    assert [batch.table for batch in row_filter.apply([half])] == ["consumer_topic"]
    assert row_filter.over_cap
