"""Generates docs/metrics.md from the catalogue: every measurement with its tags, fields, units and meanings."""

from __future__ import annotations

from lagwatch.catalogue import BUILT_IN, Table
from lagwatch.catalogue.volume import ObjectCounts

_HEAD = """\
# Metrics

`python -m lagwatch.catalogue.reference` generates this page from `lagwatch/catalogue/`; a test compares the two.

Each table is a measurement in InfluxDB and a folder in the archive.
Tags identify a row, fields are its values. An unknown value is absent, never 0.
`influxdb.tags` are added to every point.
Timestamps are milliseconds, taken when the poll starts, so a point written twice is the same point.

An InfluxDB tag cannot contain a newline or end with a backslash (measured on 2.7.12, with every way to escape them).
lagwatch writes them as `␛n` and `␛/`, and a `␛` in a name as `␛␛`. Every other character is written as it is.

## How many series

| measurement | series | 50 groups, 500 partitions | 1,000 groups, 10,000 partitions |
|---|---|---|---|
"""

_SMALL = ObjectCounts(
    groups=50, group_topics=75, group_partitions=3_750, members=100, topics=10, partitions=500, brokers=3
)
_LARGE = ObjectCounts(
    groups=1_000, group_topics=1_500, group_partitions=75_000, members=2_000, topics=200, partitions=10_000, brokers=6
)


def render() -> str:
    """The whole page."""
    series = "".join(_series(table) for table in BUILT_IN if table.volumes)
    return _HEAD + series + "".join(_section(table) for table in BUILT_IN)


def _series(table: Table) -> str:
    volume = table.volumes[0]
    small, large = volume.count_series(_SMALL), volume.count_series(_LARGE)
    return f"| {table.name} | {volume.series} | {small:,} | {large:,} |\n"


def _section(table: Table) -> str:
    lines = [f"\n## {table.name}", "", table.meaning, "", "| tag | meaning |", "|---|---|"]
    lines += [f"| {tag.name} | {tag.meaning} |" for tag in table.tags]
    lines += ["", "| field | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| {field.name} | {field.kind.value} | {field.unit} | {field.meaning} |" for field in table.fields]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render(), end="")  # noqa: T201
