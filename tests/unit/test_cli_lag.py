"""`lagwatch lag`: rows, filters, order, notes and exit codes, from batches with known values."""

from __future__ import annotations

import pytest

from lagwatch.cli.lag_report import LagQuery, LagReport
from lagwatch.snapshot.lag import Sort
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView
from tests.harness.cluster_views import NOW_MS, batch, failure, lag_row, seen

GROUPS = batch(
    "consumer_group", [{"group": "billing", "state": "Stable", "members": 2}, {"group": "mail", "state": "Empty"}]
)
ENDS = batch("topic_partition", [{"topic": "orders", "partition": n, "log_end_offset": 100} for n in range(5)])
MEMBERS = batch(
    "group_member",
    [
        {"group": "billing", "member": "m-1", "client_id": "c-1", "host": "10.0.0.1", "assignment": "orders:0-1,4"},
        {"group": "billing", "member": "m-2", "client_id": "c-2", "host": "10.0.0.2", "assignment": ""},
    ],
)
LAG = batch(
    "consumer_lag",
    [
        lag_row("billing", "orders", 0, 90, 10, seconds_since_moved=3.0),
        lag_row("billing", "orders", 1, 40, 60, seconds_since_moved=30.0),
        lag_row("mail", "orders", 2, 100, 0, seconds_since_moved=1.0),
        lag_row("mail", "orders", 3, 7, None, seconds_since_moved=9.0, stale=True),
    ],
)
EAST = (GROUPS, ENDS, MEMBERS, LAG)


def cells(what: ClusterView, **query: object) -> list[list[str]]:
    return [line.split() for line in LagReport.of(what, LagQuery(**query)).lines(None)]  # type: ignore[arg-type]


def test_rows_are_those_of_kafkas_own_tool() -> None:
    assert cells(seen(*EAST)) == [
        [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
            "UNMOVED",
        ],
        ["billing", "orders", "0", "90", "100", "10", "m-1", "10.0.0.1", "c-1", "-"],
        ["billing", "orders", "1", "40", "100", "60", "m-1", "10.0.0.1", "c-1", "-"],
        ["billing", "orders", "4", "-", "100", "-", "m-1", "10.0.0.1", "c-1", "-"],
        ["billing", "-", "-", "-", "-", "-", "m-2", "10.0.0.2", "c-2", "-"],
        ["mail", "orders", "2", "100", "100", "0", "-", "-", "-", "-"],
        ["mail", "orders", "3", "7", "100", "?", "-", "-", "-", "-"],
    ]


def test_still_says_more_than_when_it_has_not_moved_under_observation() -> None:
    unmoved = [row[-1] for row in cells(seen(*EAST, followed_seconds=30.0))[1:]]
    assert unmoved == ["3s", ">30s", "-", "-", "1s", "9s"]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (Sort.group, ["0", "1", "4", "-", "2", "3"]),
        (Sort.topic, ["0", "1", "2", "3", "4", "-"]),
        (Sort.lag, ["1", "0", "2", "3", "4", "-"]),  # unknown after known, never as if it were 0
        (Sort.unmoved, ["1", "3", "0", "2", "4", "-"]),
    ],
)
def test_rows_are_sorted_as_requested(sort: Sort, order: list[str]) -> None:
    assert [row[2] for row in cells(seen(*EAST, followed_seconds=99.0), sort=sort)[1:]] == order


def test_an_unknown_lag_may_be_above_min_lag() -> None:
    assert [row[2] for row in cells(seen(*EAST), min_lag=50)[1:]] == ["1", "3"]


def test_top_says_how_many_rows_it_leaves_out() -> None:
    shown = cells(seen(*EAST), sort=Sort.lag, top=1)
    assert [row[2] for row in shown[1:2]] == ["1"]
    assert shown[2:] == [["...", "and", "5", "more", "rows"]]


def test_groups_and_topics_are_named_exactly_or_by_pattern() -> None:
    assert {row[0] for row in cells(seen(*EAST), groups=NamePatterns(("b*",)))[1:]} == {"billing"}
    assert cells(seen(*EAST), topics=NamePatterns(("ord",))) == []
    assert NamePatterns(("a[b]*",))("a[b]*")
    assert NamePatterns(("a[b]*",))("ab-1")
    assert not NamePatterns(("a",))("A")
    [pattern] = NamePatterns(("x*",)).patterns()
    assert pattern.fullmatch("x\ny")


def test_a_group_that_does_not_exist_is_a_problem() -> None:
    report = LagReport.of(seen(*EAST), LagQuery(groups=NamePatterns(("nobody", "mail"))))
    assert report.notes() == ["no group nobody exists"]
    assert report.exit_code() == 1
    partly = LagReport.of(seen(*EAST, complete=False), LagQuery(groups=NamePatterns(("nobody",))))
    assert partly.notes() == [
        "groups may be missing: some coordinators could not be queried",
        "no group nobody exists; it may be among those that could not be queried",
    ]


def test_a_failed_query_is_reported_once() -> None:
    sources = batch(
        "source", [failure("kafka", "broker 2", "no report within 2.0 s"), {**failure("kafka", "", ""), "up": True}]
    )
    report = LagReport.of(seen(*EAST, sources), LagQuery())
    assert report.notes() == ["could not query broker 2 (kafka): no report within 2.0 s"]
    assert report.exit_code() == 1
    assert report.document()["failures"][0]["target"] == "broker 2"


def test_a_stale_row_shows_its_last_value_and_its_age() -> None:
    rows = [
        lag_row("g", "t", 0, 5, 7, seconds_since_moved=200.0, stale=True, age_seconds=125.0),
        lag_row("g", "t", 1, 5, 0),
    ]
    shown = cells(seen(batch("consumer_lag", rows, NOW_MS - 5000), from_journal=True, followed_seconds=float("inf")))
    assert shown[0][-1] == "AGE"
    assert shown[1][-4:] == ["-", "3m20s", "stale", "2m10s"]
    assert shown[1][5] == "7"
    assert shown[2][-1] == "5s"


def test_when_the_agent_is_dead_no_row_looks_fresh() -> None:
    what = seen(LAG, from_journal=True, overdue="the newest poll is 1h old: is the agent running?")
    assert [(row[2], row[5], "stale" in row) for row in cells(what)[1:]] == [
        ("0", "10", True), ("1", "60", True), ("2", "0", True), ("3", "?", False),
    ]  # fmt: skip
    assert LagReport.of(what, LagQuery()).exit_code() == 1


def test_json_keeps_names_exact_and_unknown_lag_null() -> None:
    odd = 'we\nird, "g" 🎉'
    what = seen(batch("consumer_group", [{"group": odd}]), batch("consumer_lag", [lag_row(odd, "t", 0, 5, None)]))
    [group] = LagReport.of(what, LagQuery()).document()["groups"]
    assert group["group"] == odd
    assert (group["total_lag"], group["max_lag"], group["unknown_lag_partitions"]) == (None, None, 1)
    assert group["partitions"][0]["lag"] is None
    assert cells(what)[1][:3] == ["we\\nird,", '"g"', "🎉"]


def test_json_has_sums_members_and_groups_without_rows() -> None:
    empty = batch("consumer_group", [{"group": "billing", "state": "Stable"}, {"group": "new", "state": "Empty"}])
    document = LagReport.of(
        seen(empty, ENDS, MEMBERS, LAG), LagQuery(groups=NamePatterns(("billing", "new")))
    ).document()
    billing, new = document["groups"]
    assert (billing["total_lag"], billing["max_lag"], billing["state"]) == (70, 60, "Stable")
    assert [part["member"] for part in billing["partitions"]] == ["m-1"] * 3
    assert billing["idle_members"] == [{"member": "m-2", "host": "10.0.0.2", "client_id": "c-2"}]
    assert (new["partitions"], new["total_lag"]) == ([], 0)
    assert document["at"] == "2023-11-14T22:15:00.000Z"


def test_with_topics_only_the_groups_that_read_them_are_in_the_document() -> None:
    other = batch("consumer_lag", [lag_row("mail", "other", 0, 1, 1)])
    document = LagReport.of(seen(GROUPS, other), LagQuery(topics=NamePatterns(("other",)))).document()
    assert [group["group"] for group in document["groups"]] == ["mail"]
