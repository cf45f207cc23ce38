"""The demo's screen, lines and JSON from fixed numbers, and the options of the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lagwatch.cli.demo_processes import agent_config
from lagwatch.cli.demo_screen import Broker, ScreenContext, plain_lines, screen, sparkline
from lagwatch.cli.demo_state import DemoState, GroupLine, JournalFollower, ShownEvent, largest_lag_first
from lagwatch.config import parse_settings
from lagwatch.journal import Journal
from lagwatch.snapshot.health import Health
from tests.harness.cli import lagwatch
from tests.harness.cluster_views import NOW_MS, batch, failure, lag_row, seen

GROUP = GroupLine(
    "slow", "reads too little", "Stable", "consumer", 1, 1234, 5000, 3.0, 2, stale=False, lags=(1, 2), status="WARN"
)
CONTEXT = ScreenContext(
    "4.3.1", [Broker(1, 101, running=True), Broker(2, 102, running=True)], 5, ["try this", "or that"]
)


def state(groups: Sequence[GroupLine] = (GROUP,), events: Sequence[ShownEvent] = (), problem: str = "") -> DemoState:
    totals = {
        "brokers": 2,
        "partitions": 25,
        "under_replicated_partitions": 0,
        "offline_partitions": 0,
        "controller": 2,
    }
    about = [batch("cluster", [totals]), batch("consumer_group", [{"group": "slow"}])]
    row = {"source": "kafka", "target": "", "up": True, "duration_seconds": 0.04}
    sources = [row, *([failure("kafka", "broker 2", problem)] if problem else [])]
    return DemoState(Health(seen(*about, batch("source", sources), from_journal=True)), groups, events)


CURVES: list[tuple[list[int | None], int, str, str]] = [
    ([], 4, "····", "nothing known yet"),
    ([0, 0, 0], 4, "·▁▁▁", "no lag"),
    ([3, 8, 1, 9], 4, "▁▁▁▁", "the noise of reading in batches stays flat"),
    ([0, 400, 800], 3, "▁▅█", "from nothing to the largest"),
    ([800, 0, 200, None, 100], 4, "▁█·▅", "only the newest count, also for the scale"),
]


@pytest.mark.parametrize(("lags", "width", "drawn", "reason"), CURVES)
def test_a_curve_of_lags(lags: list[int | None], width: int, drawn: str, reason: str) -> None:
    assert sparkline(lags, width) == drawn, reason


def test_the_worst_group_is_first_and_one_of_unknown_lag_before_it() -> None:
    lags = {"a": 5, "b": None, "c": 70, "d": 5}
    groups = [replace(GROUP, name=name, lag=lag) for name, lag in lags.items()]
    assert [group.name for group in largest_lag_first(groups)] == ["b", "c", "a", "d"]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40), (60, 10), (200, 60)])
def test_the_screen_fits(width: int, height: int) -> None:
    groups = [replace(GROUP, name=f"group-number-{number:05}", lags=(0,) * 50) for number in range(10)]
    events = [ShownEvent(NOW_MS - 1000 * number, f"event {number}") for number in range(20, 0, -1)]
    lines = screen(state(groups, events, "no answer"), CONTEXT, width, height)
    assert len(lines) <= height
    assert lines[-2:] == ["try this", "or that"]
    assert width < 80 or max(map(len, lines)) <= width


def test_the_screen_shows_groups_cluster_and_events() -> None:
    lines = screen(state(events=[ShownEvent(NOW_MS - 90_000, "it happened")]), CONTEXT, 140, 40)
    assert lines[0] == "Kafka 4.3.1  brokers: 1 pid 101, 2 pid 102 (controller)"
    assert lines[1] == "25 partitions: under-replicated 0, offline 0; polled 0s ago in 0.04s"
    assert lines[3].split() == (
        ["GROUP", "WHAT", "IT", "DOES", "STATUS", "STATE", "MEMBERS", "LAG", "LAST", "3m", "UNMOVED", "REBALANCES"]
    )
    assert lines[4].split() == [
        "slow",
        "reads",
        "too",
        "little",
        "WARN",
        "Stable",
        "1",
        "1,234",
        "·" * 34 + "▁▁",
        "3s",
        "2",
    ]
    assert " 1m30s ago  it happened" in lines


def test_a_narrow_screen_leaves_out_the_sentences() -> None:
    assert "WHAT" not in "".join(screen(state(), CONTEXT, 80, 24))


def test_the_newest_events_are_shown_newest_first() -> None:
    events = [ShownEvent(NOW_MS, f"event {number}") for number in range(9)]
    shown = [line.split("ago  ")[1] for line in screen(state(events=events), CONTEXT, 140, 40) if "ago  " in line]
    assert shown == ["event 8", "event 7", "event 6", "event 5", "event 4"]


def test_a_low_screen_says_how_many_groups_it_leaves_out() -> None:
    groups = [replace(GROUP, name=f"group-{number}") for number in range(10)]
    lines = screen(state(groups), CONTEXT, 100, 12)
    assert "... and 6 more groups" in lines


def test_a_broker_that_is_down_and_failed_queries_are_shown() -> None:
    around = replace(CONTEXT, brokers=[Broker(1, 101, running=True), Broker(2, 102, running=False, back_in_seconds=12)])
    lines = screen(state(problem="connection refused"), around, 100, 24)
    assert lines[0] == "Kafka 4.3.1  brokers: 1 pid 101, 2 DOWN (back in 12s)"
    assert lines[2].startswith("could not query broker 2 (kafka)")
    assert "broker 2 is down; could not query broker 2" in plain_lines(state(problem="refused"), around)[0]


def test_before_the_first_poll_the_screen_says_so() -> None:
    assert "waiting for the agent's first poll" in screen(None, CONTEXT, 80, 24)
    assert plain_lines(None, CONTEXT) == ["waiting for the agent's first poll"]


def test_on_a_pipe_each_group_has_a_line() -> None:
    unknown = replace(GROUP, name="x", lag=None, members=None, still_seconds=None, stale=True)
    assert plain_lines(state([GROUP, unknown]), CONTEXT) == [
        "2023-11-14 22:15:00Z 2 brokers, 25 partitions: no problems",
        "2023-11-14 22:15:00Z slow  WARN    lag  1,234  Stable, 1 member, 2 rebalances  unmoved for 3s",
        "2023-11-14 22:15:00Z x     WARN    lag      ?  Stable, members ?, 2 rebalances  STALE",
    ]


def test_a_journal_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    assert JournalFollower(tmp_path / "journal.db", "east", {}).read() is None


def test_the_journal_is_read_on_from_where_it_was_read_to(tmp_path: Path) -> None:
    with_source = batch("source", [{"source": "kafka", "target": "", "up": True, "since_ms": NOW_MS}])

    def poll(number: int, lag: int) -> None:
        at_ms = NOW_MS + 5000 * number
        group = {"group": "slow", "state": "Stable", "members": 1, "rebalances": 0, "partitions": 2, "total_lag": lag,
                 "unknown_lag_partitions": 0, "stale": False, "status_text": "WARN", "why": f"lag {lag}"}  # fmt: skip
        rows = [
            lag_row("slow", "t", 0, 10, lag, seconds_since_moved=number * 5.0, stale=False),
            lag_row("slow", "t", 1, 7, 0, seconds_since_moved=900.0, stale=False),
        ]
        events_of_2 = [
            {"kind": "rebalance", "why": "it rebalanced"},
            {"kind": "status", "subject": "slow", "before": "OK", "after": "WARN", "why": "t/0 is WARN: falls behind"},
        ]
        events = [batch("event", events_of_2, at_ms)] if number == 2 else []
        journal.append(
            [batch("consumer_group", [group], at_ms), batch("consumer_lag", rows, at_ms), *events, with_source]
        )

    journal = Journal(tmp_path / "journal.db", cap_bytes=2**26, history_seconds=3600, partition_rows_every_seconds=1)
    watch = JournalFollower(journal.path, "east", {"slow": "reads too little"})
    poll(1, 30)
    first = watch.read()
    poll(2, 40)
    poll(3, 50)
    second = watch.read()
    journal.close()
    assert first is not None
    assert second is not None
    assert (first.groups[0].lags, second.groups[0].lags) == ((30,), (30, 40, 50))
    assert (second.groups[0].lag, second.groups[0].committed, second.groups[0].what) == (50, 17, "reads too little")
    assert second.groups[0].still_seconds == 15.0, "a partition that is not behind does not stand still"
    assert [event.why for event in second.events] == ["it rebalanced", "WARN: t/0 is WARN: falls behind"]
    assert (second.groups[0].status, second.groups[0].why) == ("WARN", "lag 50"), "what the newest poll says of it"
    assert second.document()["groups"][0]["lag"] == 50


def test_the_configuration_of_the_demos_agent_is_a_good_one() -> None:
    [cluster] = parse_settings(agent_config("127.0.0.1:1,127.0.0.1:2", jmx_ports={1: 9991, 2: 9992}), "demo").clusters
    assert cluster.bootstrap == ("127.0.0.1:1", "127.0.0.1:2")
    assert cluster.jmx is not None
    assert cluster.jmx.brokers == {1: "127.0.0.1:9991", 2: "127.0.0.1:9992"}


BAD_USAGE = [
    (["--every", "ten"], '"ten" is not a duration'),
    (["--for", "60"], "without a unit (try 60s)"),
    (["--for", "0s"], "must be above zero"),
    (["--version", "newest"], '"newest" is not a version'),
]


@pytest.mark.parametrize(("options", "expected"), BAD_USAGE)
def test_usage_errors_are_reported_before_anything_starts(options: list[str], expected: str) -> None:
    ran = lagwatch("demo", *options)
    assert ran.code == 2
    assert expected in ran.stderr
    assert "starting" not in ran.stderr
