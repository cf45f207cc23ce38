"""Builds Flux queries; only names from the catalogue are accepted.

There are two kinds: a value over the whole time range, aggregated in windows of a pixel or two, and the newest value,
which reads only the last minutes of the range. That keeps a range of thirty days fast.

Variables are inserted as `${name:regex}`. Grafana then escapes every special character of regular expressions, including
slash and dollar, so no name can end the expression or start a Flux interpolation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grafana.generator.palette import NOT_KNOWN_NOW, STALE_ADDS
from lagwatch.catalogue import Table

LOOK_BACK = "25m"
"""How far before the end of the time range the newest value may be; `SLOW` for values recorded every few minutes."""
SLOW = "1h"
STALE_AFTER_NS = 300 * 10**9
"""A newest value older than this at the end of the time range is stale."""

AGE_NS = "int(v: v.timeRangeStop) - int(v: r._time)"
IS_OLD = f"{AGE_NS} > {STALE_AFTER_NS}"
IS_SILENT = f"{AGE_NS} > {3 * STALE_AFTER_NS}"
"""For a whole source: some are polled only every five minutes. A target has no row once it is no longer polled."""


def chosen(*tags: str) -> list[str]:
    """Conditions that each tag matches the variable of the same name."""
    return [f"r.{tag} =~ /^${{{tag}:regex}}$/" for tag in tags]


def check(table: Table, fields: Iterable[str] = (), tags: Iterable[str] = ()) -> None:
    """Raise ValueError for a name that the table does not have."""
    unknown = set(fields) - {field.name for field in table.fields} | set(tags) - {tag.name for tag in table.tags}
    if unknown:
        raise ValueError(f"table {table.name} has no {', '.join(sorted(unknown))}")


def windows(
    table: Table,
    field: str,
    keys: Sequence[str],
    where: Sequence[str],
    *,
    fn: str = "mean",
    then: Sequence[str] = (),
) -> str:
    """A field over the time range, one value per window and series. Windows without points are null, so gaps are visible."""
    check(table, [field], keys)
    return _flow(
        *_read(table, [field], where, "range(start: v.timeRangeStart, stop: v.timeRangeStop)"),
        f"aggregateWindow(every: v.windowPeriod, fn: {fn}, createEmpty: true)",
        _keep("_time", "_value", *keys),
        *then,
    )


def summed(keys: Sequence[str], fn: str = "sum") -> list[str]:
    """Further stages that aggregate the series with the same keys, window by window."""
    return [
        f"group(columns: {_list(['_time', *keys])})",
        f"{fn}()",
        f"group(columns: {_list(keys)})",
        'sort(columns: ["_time"])',
    ]


def total(keys: Sequence[str], each: str = "r._value") -> list[str]:
    """Further stages after `newest`: one sum per key, far below zero when any part of it is stale."""
    return [
        f"map(fn: (r) => ({{r with _value: if r._value < 0.0 then {NOT_KNOWN_NOW}000000.0 else {each}}}))",
        f"group(columns: {_list(keys)})",
        "sum()",
        "map(fn: (r) => ({r with _time: v.timeRangeStop}))",
    ]


def status_windows(table: Table, keys: Sequence[str], where: Sequence[str]) -> str:
    """The worst status of each window, marked stale where a row of the window is stale.

    Only stale rows have `age_seconds`, and unlike the boolean `stale` it has a maximum.
    """
    check(table, ["status", "age_seconds"], keys)
    return _flow(
        *_read(table, ["status", "age_seconds"], where, "range(start: v.timeRangeStart, stop: v.timeRangeStop)"),
        "aggregateWindow(every: v.windowPeriod, fn: max, createEmpty: true)",
        _keep("_time", "_field", "_value", *keys),
        'pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")',
        f"map(fn: (r) => ({{r with _value: if exists r.age_seconds then r.status + {STALE_ADDS} else r.status}}))",
        _keep("_time", "_value", *keys),
    )


def newest(
    table: Table,
    field: str,
    keys: Sequence[str],
    where: Sequence[str],
    *,
    back: str = LOOK_BACK,
    then: Sequence[str] = (),
) -> str:
    """The newest value of each series as a number; NOT_KNOWN_NOW where it is too old."""
    check(table, [field], keys)
    too_old = [] if back == SLOW else [f"map(fn: (r) => ({{r with _value: {_unless_old('_value')}}}))"]
    return _flow(
        *_read(table, [field], where, _recent(back)),
        "last()",
        _keep("_time", "_value", *keys),
        *too_old,
        *then,
        imports=["date"],
    )


def newest_rows(
    table: Table,
    fields: Sequence[str],
    keys: Sequence[str],
    where: Sequence[str],
    *,
    back: str = LOOK_BACK,
    then: Sequence[str] = (),
) -> str:
    """The newest complete row of each series, as one table.

    The first field must be present in every row and identifies it: a field that is absent now but was recorded minutes
    ago has another time and is left out.
    """
    check(table, fields, keys)
    return _flow(
        *_read(table, fields, where, _recent(back)),
        "last()",
        _keep("_time", "_field", "_value", *keys),
        'pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")',
        "group()",
        f"filter(fn: (r) => exists r.{fields[0]})",
        *then,
        imports=["date"],
    )


def newest_columns(
    table: Table, fields: Sequence[str], keys: Sequence[str], where: Sequence[str], *, then: Sequence[str] = ()
) -> str:
    """The newest numbers of each series in one row, although jobs recorded them at different times."""
    check(table, fields, keys)
    return _flow(
        *_read(table, fields, where, _recent(LOOK_BACK)),
        "last()",
        f"map(fn: (r) => ({{r with _value: {_unless_old('_value')}}}))",
        _keep("_field", "_value", *keys),
        f'pivot(rowKey: {_list(keys)}, columnKey: ["_field"], valueColumn: "_value")',
        "group()",
        *then,
        imports=["date"],
    )


def events(table: Table, kind: str, where: Sequence[str], *, limit: int = 200) -> str:
    """Annotations with the text of events; at most the newest `limit`."""
    check(table, ["before", "after", "why"], ["kind", "subject"])
    return _flow(
        *_read(
            table,
            ["before", "after", "why"],
            [f'r.kind == "{kind}"', *where],
            "range(start: v.timeRangeStart, stop: v.timeRangeStop)",
        ),
        'pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")',
        "group()",
        'sort(columns: ["_time"], desc: true)',
        f"limit(n: {limit})",
        'map(fn: (r) => ({_time: r._time, text: r.why, title: r.subject, tags: r.kind + "," + r.cluster}))',
    )


def tag_values(table: Table, tag: str, where: Sequence[str] = ()) -> str:
    """The values of a variable: a tag of a table within the time range, from the index."""
    check(table, [], [tag])
    conditions = " and ".join([f'r._measurement == "{table.name}"', *where])
    return (
        'import "influxdata/influxdb/schema"\n\n'
        f'schema.tagValues(bucket: v.defaultBucket, tag: "{tag}", predicate: (r) => {conditions}, '
        "start: v.timeRangeStart, stop: v.timeRangeStop)"
    )


def columns(*pairs: str) -> str:
    """A stage that outputs exactly these columns: `columns("group: r.group", "lag: r.total_lag")`."""
    return f"map(fn: (r) => ({{{', '.join(pairs)}}}))"


def reduced(made: Mapping[str, tuple[str, str]]) -> str:
    """A stage that reduces rows to one: per column its initial value and its next one, an expression of `so_far` and `r`."""
    start = ", ".join(f"{name}: {first}" for name, (first, _) in made.items())
    steps = ", ".join(f"{name}: {step.replace('so_far', 'accumulator')}" for name, (_, step) in made.items())
    return f"reduce(identity: {{{start}}}, fn: (r, accumulator) => ({{{steps}}}))"


def larger(left: str, right: str) -> str:
    """An expression for the larger of two."""
    return f"if {left} > {right} then {left} else {right}"


def shown_status() -> str:
    """An expression for the displayed status of a row with `status` and `stale`."""
    stale = f"(exists r.stale and r.stale) or {IS_OLD}"
    return f"(if {stale} then r.status + {STALE_ADDS} else r.status)"


def _unless_old(column: str) -> str:
    return f"if {IS_OLD} then {NOT_KNOWN_NOW}.0 else float(v: r.{column})"


def _read(table: Table, fields: Sequence[str], where: Sequence[str], span: str) -> list[str]:
    names = " or ".join(f'r._field == "{field}"' for field in fields)
    conditions = [f"filter(fn: (r) => {' and '.join(where)})"] if where else []
    return [
        "from(bucket: v.defaultBucket)",
        span,
        f'filter(fn: (r) => r._measurement == "{table.name}" and ({names}))',
        *conditions,
    ]


def _recent(back: str) -> str:
    return f"range(start: date.sub(d: {back}, from: v.timeRangeStop), stop: v.timeRangeStop)"


def _keep(*names: str) -> str:
    return f"keep(columns: {_list(names)})"


def _list(names: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _flow(*stages: str, imports: Sequence[str] = ()) -> str:
    head = "".join(f'import "{name}"\n' for name in imports)
    return (head + "\n" if head else "") + "\n  |> ".join(stages)
