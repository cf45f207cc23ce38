"""docs/metrics.md, made from the catalogue: every measurement with its tags, fields, units and meanings."""

from __future__ import annotations

from lagwatch.catalogue import BUILT_IN, Table

_HEAD = """\
# Metrics

This page is made from `lagwatch/catalogue/` by `python -m lagwatch.catalogue.reference`; a test holds it to it.

Each table is a measurement in InfluxDB and a folder in the archive.
Tags say what a row is about, fields are its values; a value that is not known is absent, never 0.
`influxdb.tags` are added to every point.
Timestamps are milliseconds, fixed when a poll began, so a point written twice is the same point.

InfluxDB cannot carry a newline, or a backslash at the end, in a tag (measured on 2.7.12, however they are escaped).
They arrive as `␛n` and `␛/`, and a `␛` in a name as `␛␛`; every other character arrives as it is.

## How many series

| measurement | series | 50 groups, 500 partitions | 1,000 groups, 10,000 partitions |
|---|---|---|---|
"""

_SERIES = {
    "consumer_lag": ("groups x the partitions each commits to", "3,750", "75,000"),
    "consumer_topic": ("groups x the topics each commits to; only where partitions are summed", "75", "1,500"),
    "consumer_group": ("groups", "50", "1,000"),
    "group_member": ("members", "100", "2,000"),
    "commit": ("groups x the partitions each commits to; only where commits are tailed", "3,750", "75,000"),
    "topic_partition": ("partitions", "500", "10,000"),
    "topic": ("topics", "10", "200"),
    "broker": ("brokers and controllers", "3", "6"),
    "broker_request": ("brokers x 10 kinds of request; only where JMX is asked", "30", "60"),
    "cluster": ("1", "1", "1"),
    "event": ("kinds of event x what they happened to", "50", "1,000"),
    "source": ("5 collectors, each with every broker it asks", "17", "32"),
    "agent": ("1, and each job and sink", "7", "7"),
}


def render() -> str:
    """The whole page."""
    rows = [f"| {name} | {' | '.join(_SERIES[name])} |" for name in (t.name for t in BUILT_IN) if name in _SERIES]
    return _HEAD + "\n".join(rows) + "\n" + "".join(_section(table) for table in BUILT_IN)


def _section(table: Table) -> str:
    lines = [f"\n## {table.name}", "", table.meaning, "", "| tag | meaning |", "|---|---|"]
    lines += [f"| {tag.name} | {tag.meaning} |" for tag in table.tags]
    lines += ["", "| field | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| {field.name} | {field.kind.value} | {field.unit} | {field.meaning} |" for field in table.fields]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render(), end="")  # noqa: T201
