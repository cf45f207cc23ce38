"""Estimated volume of the data that a configuration writes."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from lagwatch.batch import Column, Texts, encode_rows, make_batch
from lagwatch.catalogue import BUILT_IN, CONSUMER_LAG, TOPIC_PARTITION, Table
from lagwatch.catalogue.volume import Cost
from lagwatch.config import Settings, parse_settings
from lagwatch.config.capacity import Counts, describe_fit, estimate, per_thousand

GOOD = "clusters:\n  - name: east\n    bootstrap: [kafka1:9092]\n"
LARGE = Counts(groups=1000, group_partitions=100_000, topics=1000, partitions=10_000, brokers=6)


def settings_with(journal: str = "", cluster: str = "", commits: str = "poll") -> Settings:
    keys = "".join(f"    {key}\n" for key in (f"commits: {commits}", cluster) if key)
    return parse_settings(f"journal: {{{journal}}}\n{GOOD}{keys}", "f")


def kept(settings: Settings, table: str) -> int:
    return next(size.kept_bytes for size in estimate(settings, {"east": LARGE}).tables if size.table == table)


def test_only_tables_that_are_small_or_not_in_the_journal_are_not_counted() -> None:
    uncounted = [table.name for table in BUILT_IN if not any(volume.cost for volume in table.volumes)]
    assert uncounted == ["consumer_topic", "group_member", "event", "rejected"]


def journal_cost(table: Table) -> Cost:
    cost = table.volumes[0].cost
    assert cost is not None
    return cost


def test_the_bytes_of_a_lag_row_are_those_of_real_batches() -> None:
    random = np.random.default_rng(7)
    count = 20_000
    end, lag = random.integers(10**6, 10**10, count), random.integers(0, 10**4, count)
    codes = (np.arange(count) // 100).astype(np.int32)
    columns: dict[str, Column] = {
        "group": Texts(codes, [f"group-{i}" for i in range(200)]),
        "topic": Texts(codes, [f"topic-{i}" for i in range(200)]),
        "partition": np.arange(count) % 100,
        "committed_offset": end - lag,
        "lag": lag,
        "seconds_since_moved": random.random(count) * 600,
    }
    a_row = len(encode_rows(make_batch(CONSUMER_LAG, "c", 0, columns).rows)) / count
    assert journal_cost(CONSUMER_LAG).row == pytest.approx(a_row, rel=0.3)


def test_the_bytes_of_an_empty_batch_are_those_of_real_batches() -> None:
    size = len(encode_rows(make_batch(TOPIC_PARTITION, "c", 0, {"topic": ["t"], "partition": [0]}).rows))
    assert journal_cost(TOPIC_PARTITION).batch == pytest.approx(size, rel=0.3)


def test_a_large_cluster_comes_to_the_sums_done_by_hand() -> None:
    sizes = estimate(settings_with(), {"east": LARGE})
    lag = next(size for size in sizes.tables if size.table == "consumer_lag")
    one_poll = 165 + 900 + 100_000 * 9.7
    assert lag.series == 100_000
    assert lag.rows_a_day == 864_000_000
    assert lag.bytes_a_day == pytest.approx(one_poll * 8640)
    assert lag.kept_bytes == pytest.approx(one_poll * (1430 + 60), rel=1e-6)  # one a minute, ten minutes at full rate
    assert sizes.series == sum(size.series for size in sizes.tables)


@pytest.mark.parametrize(
    ("table", "thinned"),
    [("consumer_lag", True), ("topic_partition", True), ("consumer_group", False), ("cluster", False)],
)
def test_only_rows_per_partition_are_thinned(table: str, thinned: bool) -> None:
    usual, rarer = settings_with(), settings_with("partition_rows_every: 10m")
    assert (kept(rarer, table) < kept(usual, table) / 3) == thinned
    assert (kept(rarer, table) == kept(usual, table)) == (not thinned)


@pytest.mark.parametrize("commits", ["auto", "topic"])
def test_commits_that_may_come_from_the_topic_are_counted_at_one_in_five_seconds(commits: str) -> None:
    tables = {size.table: size for size in estimate(settings_with(commits=commits), {"east": LARGE}).tables}
    assert tables["commit"].rows_a_day == 100_000 * 86_400 // 5
    assert tables["commit"].bytes_a_day == pytest.approx(100_000 * 86_400 / 5 * 5, rel=0.01)
    assert tables["commit"].series == 0
    assert "commit" not in {size.table for size in estimate(settings_with(), {"east": LARGE}).tables}


def test_partition_rows_are_not_more_often_than_polls() -> None:
    assert kept(settings_with("partition_rows_every: 1s"), "consumer_lag") == kept(
        settings_with("partition_rows_every: 10s"), "consumer_lag"
    )


def test_more_of_anything_never_needs_less() -> None:
    settings = settings_with()
    base = estimate(settings, {"east": LARGE})
    for field in fields(Counts):
        more = {name.name: getattr(LARGE, name.name) for name in fields(Counts)} | {field.name: 200_000}
        assert estimate(settings, {"east": Counts(**more)}).kept_bytes > base.kept_bytes, field.name


def test_a_history_that_fits_is_reported_as_such() -> None:
    settings = settings_with("max_size: 4GiB")
    assert estimate(settings, {"east": LARGE}).fits
    assert describe_fit(settings, {"east": LARGE}).endswith("of the 4.0 GiB in journal.max_size: it fits")


def test_a_history_that_does_not_fit_comes_with_settings_that_would() -> None:
    settings = settings_with("history: 7d, max_size: 4GiB")
    advice = describe_fit(settings, {"east": LARGE})
    assert "it does not fit; set journal.max_size: 16GiB, or history: 2d, or partition_rows_every: 5m" in advice
    for change in ("max_size: 16GiB, history: 7d", "max_size: 4GiB, history: 2d"):
        assert estimate(settings_with(change), {"east": LARGE}).fits
    assert estimate(settings_with("history: 7d, max_size: 4GiB, partition_rows_every: 5m"), {"east": LARGE}).fits


def test_advice_names_only_what_helps() -> None:
    advice = describe_fit(settings_with("max_size: 16MiB"), {"east": LARGE})
    assert advice.endswith("set journal.max_size: 3GiB")


def test_the_cost_of_a_thousand_group_partitions_does_not_count_what_is_there_anyway() -> None:
    a_day, kept_bytes = per_thousand(settings_with(), "east")
    assert a_day == pytest.approx(1000 * 9.7 * 8640 + 60 * 1000 * 288, rel=0.01)
    assert kept_bytes < a_day / 4


def test_jmx_is_counted_where_it_is_configured() -> None:
    without = estimate(settings_with(), {"east": LARGE})
    sizes = estimate(settings_with(cluster="jmx: {port: 9999, controllers: {101: 'c:1'}}"), {"east": LARGE})
    added = {size.table: size for size in sizes.tables if size not in without.tables}
    assert added.keys() == {"(broker, by JMX)", "broker_request"}
    assert added["broker_request"].rows_a_day == 6 * 10 * 2880
    assert added["(broker, by JMX)"].rows_a_day == 7 * 2880
    assert sizes.series - without.series == 60
