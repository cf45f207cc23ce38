"""Every query of every dashboard, interpolated like Grafana does, against a real InfluxDB with a generated day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from lagwatch.batch import Column, make_batch
from lagwatch.catalogue import CLUSTER, CONSUMER_GROUP, CONSUMER_LAG
from lagwatch.sinks.influx.sink import InfluxSink
from tests.harness.generated_history import GeneratedHistory, generated_day
from tests.harness.grafana import EVERYTHING, Query, Variable, dashboards, filled_in, queries
from tests.harness.influx import options_for, rows

_ALL = {name: [*queries(name, board)] for name, board in dashboards().items()}
_CHOSEN: Mapping[str, Mapping[str, Variable]] = {
    "overview": {"cluster": EVERYTHING},
    "consumer-group": {"cluster": "east", "group": "billing", "topic": EVERYTHING},
    "topic": {"cluster": "east", "topic": "orders"},
    "brokers": {"cluster": "east", "broker": EVERYTHING, "request": EVERYTHING},
    "agent": {"agent": ["demo"], "cluster": ["east", "west"]},
}
# One group catches up and another never will, so its messages get deleted; only what is down has a row.
_FORECAST = "Forecast: caught up in, and unread messages deleted in"
_OTHER_GROUP = {
    "Caught up in A": "replayer",
    "Unread messages are deleted in A": "mailer",
    f"{_FORECAST} A": "replayer",
    f"{_FORECAST} B": "mailer",
}
_OTHER_TIME = {"Sources that are down, and why": 5.7}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GeneratedHistory]:
    with generated_day(tmp_path_factory.mktemp("history")) as day:
        yield day


def answer(history: GeneratedHistory, query: Query, text: str | None = None) -> list[dict[str, str]]:
    """The rows that have a value; empty windows are rows too, but have no value."""
    chosen = dict(_CHOSEN[query.board])
    if other := _OTHER_GROUP.get(query.place.removeprefix("panel ")):
        chosen["group"] = other
    ago = next((hours for title, hours in _OTHER_TIME.items() if f"panel {title}" in query.place), 0.0)
    found = rows(history.server, filled_in(text or query.text, chosen, history.view(hours_ago=ago)))
    return [row for row in found if row.get("_value") != ""]


@pytest.mark.parametrize("query", [query for board in _ALL.values() for query in board], ids=str)
def test_a_query_brings_rows(history: GeneratedHistory, query: Query) -> None:
    assert answer(history, query)


@pytest.mark.parametrize("place", ["panel Lag in messages A", "panel Lag (messages) A"])
def test_a_planted_wrong_field_brings_none(history: GeneratedHistory, place: str) -> None:
    query = _query("consumer-group", place)

    assert answer(history, query)
    assert not answer(history, query, query.text.replace("total_lag", "total_lagg"))


def test_the_incidents_of_the_day_are_on_the_boards(history: GeneratedHistory) -> None:
    [now] = answer(history, _query("overview", "panel Consumer groups by status A"))
    worst = answer(history, _query("overview", "panel Worst groups: not OK first, then by time lag A"))
    changes = answer(history, _query("overview", "annotation Status changes"))
    rebalances = answer(history, _query("overview", "annotation Rebalances"))
    under = answer(history, _query("overview", "panel Under-replicated and offline partitions A"))

    assert int(now["STOP"]) == 1
    assert (worst[0]["group"], worst[0]["status"]) == ("mailer", "4")
    assert "is STOP: all its members are gone" in worst[0]["why"]
    assert {"billing", "mailer", "replayer", "archiver"} <= {row["title"] for row in changes}
    assert "search-index" in {row["title"] for row in rebalances}
    assert max(float(row["_value"]) for row in under) == 14


def test_a_stale_status_is_shown_as_stale(history: GeneratedHistory) -> None:
    west = {**_CHOSEN["consumer-group"], "cluster": "west", "group": "dashboards"}
    during = history.view(hours_ago=11.6)  # the agent reaches no broker from 12 to 11.5 hours before the end
    timeline = _query("consumer-group", "panel Status over time A")
    stat = _query("consumer-group", "panel Status A")

    [status] = rows(history.server, filled_in(stat.text, west, during))
    shown = {
        row["_value"] for row in rows(history.server, filled_in(timeline.text, west, history.view(window="20m0s")))
    }

    assert int(status["_value"]) == 11
    assert {"1", "11"} <= shown


def test_what_the_agent_no_longer_writes_goes_stale(history: GeneratedHistory) -> None:
    later = history.view(hours_ago=-0.2)  # a view that ends twelve minutes after the last poll

    [status] = rows(
        history.server, filled_in(_query("consumer-group", "panel Status A").text, _CHOSEN["consumer-group"], later)
    )
    assert int(status["_value"]) == 11
    for board, title, shown in (
        ("overview", "Under-replicated partitions", {-1.0}),
        ("overview", "Brokers missing", {-3e6}),
        ("topic", "Offline partitions", {-6e6}),
    ):
        text = filled_in(_query(board, f"panel {title} A").text, _CHOSEN[board], later)
        assert {float(row["_value"]) for row in rows(history.server, text)} == shown, title


def test_unknown_values_neither_come_first_nor_are_zero(history: GeneratedHistory) -> None:
    at_ms = round(history.end * 1000)
    before_ms = at_ms - 120_000
    groups = ["bad", *(f"unknown-{number:02}" for number in range(60))]
    sink = InfluxSink(options_for(history.server))
    rows_of_groups: dict[str, Column] = {
        "group": groups,
        "status": [3, *[2] * 60],
        "stale": [False] * 61,
        "total_lag": [5_000, *[1] * 60],
        "max_lag_seconds": [9_000.0, *[None] * 60],
    }
    lag: dict[str, Column] = {
        "group": ["bad"] * 2,
        "topic": ["odd"] * 2,
        "partition": [0, 1],
        "lag": [1_000, 0],
        "status": [3, 1],
        "stale": [False, True],
    }
    suspected: dict[str, Column] = {"under_replicated_partitions": [9], "suspect_broker": [2]}
    sink.write(1, [make_batch(CLUSTER, "odd", before_ms, suspected)])
    sink.write(
        2,
        [
            make_batch(CONSUMER_GROUP, "odd", at_ms, rows_of_groups),
            make_batch(CONSUMER_LAG, "odd", at_ms, lag),
            make_batch(CLUSTER, "odd", at_ms, {"under_replicated_partitions": [0]}),
        ],
    )

    def panel_rows(board: str, title: str, **chosen: Variable) -> list[dict[str, str]]:
        return rows(history.server, filled_in(_query(board, f"panel {title} A").text, chosen, history.view()))

    worst = panel_rows("overview", "Worst groups: not OK first, then by time lag", cluster="odd")
    [reader] = panel_rows("topic", "Groups that read this topic", cluster="odd", topic="odd")
    [cluster] = panel_rows("overview", "Clusters", cluster="odd")

    assert worst[0]["group"] == "bad", "an unknown time lag is not the largest"
    assert reader["status"] == "3", "a stale OK does not hide an ERR"
    assert reader["seconds"] == "NaN", "not known is not zero"
    assert cluster["suspect_broker"] == "", "a suspect that is back is none"


HOSTILE = [
    "with spaces",
    'with "quotes"',
    "with 'single'",
    "a/b/c",
    "$group and ${cluster:regex}",
    "${1+1}",
    "back\\slash",
    "v.timeRangeStart",
    "a.b",
    "a|b",
    ".*",
    "(x",
    "[y]{2}^+?",
    "a,b=c",
    "ünïcödé ␛ 消费",
    "two\nlines",
    "ends with\\",
]


def stored(name: str) -> str:
    """As InfluxDB has it, and so as Grafana lists and chooses it (docs/metrics.md)."""
    name = name.replace("␛", "␛␛").replace("\n", "␛n")
    return f"{name[:-1]}␛/" if name.endswith("\\") else name


def test_hostile_names_are_filtered_correctly(history: GeneratedHistory) -> None:
    """Each name brings its own rows and no others, alone and among several; the cascade of variables as well."""
    at_ms = round(history.end * 1000)
    count = len(HOSTILE)
    sink = InfluxSink(options_for(history.server))
    for cluster in HOSTILE:
        fresh, numbers = [False] * count, list(range(count))
        lag: dict[str, Column] = {"group": HOSTILE, "topic": HOSTILE, "partition": [0] * count, "lag": numbers}
        groups: dict[str, Column] = {"group": HOSTILE, "total_lag": numbers, "stale": fresh}
        batches = [
            make_batch(CONSUMER_LAG, cluster, at_ms, lag | {"stale": fresh}),
            make_batch(CONSUMER_GROUP, cluster, at_ms, groups),
            make_batch(CLUSTER, cluster, at_ms, {"brokers": [3]}),
        ]
        sink.write(1, batches)
    view = history.view()
    heat = _query("consumer-group", "panel Lag by partition A").text
    sum_of = _query("consumer-group", "panel Lag (messages) A").text
    groups_of = _query("consumer-group", "variable group").text
    topics_of = _query("consumer-group", "variable topic").text

    names = [stored(name) for name in HOSTILE]
    for number, name in enumerate(names):
        chosen: dict[str, Variable] = {"cluster": name, "group": name, "topic": EVERYTHING}
        partitions = rows(history.server, filled_in(heat, chosen, view))
        assert {row["topic"] for row in partitions} == {name}, name
        [total] = rows(history.server, filled_in(sum_of, chosen, view))
        assert float(total["_value"]) == number, name
        assert {row["_value"] for row in rows(history.server, filled_in(groups_of, chosen, view))} == set(names), name
        assert {row["_value"] for row in rows(history.server, filled_in(topics_of, chosen, view))} == {name}, name

    several: dict[str, Variable] = {"cluster": HOSTILE[0], "group": EVERYTHING, "topic": HOSTILE[3:7]}
    assert {row["topic"] for row in rows(history.server, filled_in(heat, several, view))} == set(HOSTILE[3:7])


def _query(board: str, place: str) -> Query:
    return next(query for query in _ALL[board] if query.place == place)
