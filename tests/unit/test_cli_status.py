"""`lagwatch status` over journals of simulated consumers."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lagwatch.cli.status_report import StatusQuery, StatusReport
from lagwatch.clock import SettableClock
from lagwatch.evaluation import Policies, PolicySettings
from lagwatch.snapshot.names import NamePatterns
from lagwatch.verdict.status import Mode
from tests.harness.cli import lagwatch
from tests.harness.cluster_views import batch, lag_row, seen
from tests.harness.polls import unreachable
from tests.harness.simulated_consumers import (
    Behaviour,
    Rate,
    Simulation,
    gone,
    keeping_up,
    reading,
    standing_still,
    then,
)
from tests.harness.simulated_journal import SimulatedJournal, name_of, read_views

STORY: dict[str, tuple[Behaviour, Rate]] = {
    "healthy": (keeping_up(1), 20.0),
    "dead": (then(keeping_up(1), 300, gone), 20.0),
    "stuck": (then(keeping_up(1), 300, standing_still()), 20.0),
    "slow": (reading(10), 20.0),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> SimulatedJournal:
    """Ten minutes with a checkpoint in the middle: windows come from it and from the tail."""
    journal = SimulatedJournal(tmp_path_factory.mktemp("status") / "journal.db", Simulation(STORY))
    journal.simulation.run(440)
    journal.write(checkpoint=True)
    journal.simulation.run(160)
    journal.write()
    return journal


def report_of(written: SimulatedJournal, **options: Any) -> StatusReport:
    query = StatusQuery(**options)
    views = read_views(written.path, written.simulation.clock, *query.groups.names, with_windows=query.with_partitions)
    return StatusReport.of(views, query)


def cells(lines: list[str]) -> dict[str, str]:
    """Lines by their first word."""
    return {line.split()[0]: line for line in lines if line}


def test_groups_are_sorted_worst_first_with_numbers_and_reason(written: SimulatedJournal) -> None:
    report = report_of(written)
    assert [group.group for group in report.groups] == ["dead", "stuck", "slow", "healthy"]
    head, *lines = report.lines(None)
    assert head.split() == ["GROUP", "STATUS", "LAG", "TIME-LAG", "TREND", "CATCH-UP", "WHY"]
    by_group = cells(lines)
    assert "STOP" in by_group["dead"]
    assert "all its members are gone" in by_group["dead"]
    assert "never at this rate" in by_group["dead"]
    assert "+10" in by_group["slow"] or "+9.9/s" in by_group["slow"]
    assert "caught up" in by_group["healthy"]
    assert report.exit_code() == 1
    assert report.headline().endswith("4 groups: 1 STOP, 1 STALL, 1 WARN, 1 OK")


def test_what_is_stale_is_not_counted_as_ok() -> None:
    rows = [{"group": name, "status": 1, "status_text": "OK", "stale": name == "b", "partitions": 1} for name in "abc"]
    report = StatusReport.of([seen(batch("consumer_group", rows))], StatusQuery())
    assert report.headline().endswith("3 groups: 2 OK, 1 OK stale")


def test_all_well_is_exit_0(written: SimulatedJournal) -> None:
    assert report_of(written, groups=NamePatterns(("healthy",))).exit_code() == 0
    assert report_of(written, statuses=frozenset({"REWIND"})).exit_code() == 0


def test_partitions_carry_the_very_sentences_of_the_running_agent(written: SimulatedJournal) -> None:
    rows = written.simulation.state.pipeline.evaluator.rows
    assert rows is not None
    live = {name_of(rows.store, row): rows.why(row) for row in range(len(rows.windows))}
    report = report_of(written, groups=NamePatterns(tuple(STORY)))
    found = {f"{row.topic}/{row.partition}": row.why for group in report.groups for row in group.partitions}
    assert found == live
    lines = "\n".join(report.lines(None))
    assert "dead:" in lines
    assert "TOPIC  PARTITION  STATUS" in lines


def test_partitions_carry_the_same_sentences_with_commits_from_the_offsets_topic(tmp_path: Path) -> None:
    simulation = Simulation(STORY, from_topic=True)
    journal = SimulatedJournal(tmp_path / "journal.db", simulation)
    simulation.run(440)
    journal.write(checkpoint=True)
    simulation.run(165)  # ends between two polls
    journal.write()
    rows = simulation.state.pipeline.evaluator.rows
    assert rows is not None
    report = report_of(journal, groups=NamePatterns(tuple(STORY)))
    found = {f"{row.topic}/{row.partition}": row.why for group in report.groups for row in group.partitions}
    assert found == {name_of(rows.store, row): rows.why(row) for row in range(len(rows.windows))}


@pytest.mark.parametrize("step", [3600, -3600], ids=["forward", "back"])
@pytest.mark.parametrize("from_topic", [True, False], ids=["offsets topic", "polls"])
def test_partitions_carry_the_same_sentences_after_a_step_of_the_wall_clock(
    step: int, from_topic: bool, tmp_path: Path
) -> None:
    """Commits carry the brokers' time, so the windows end at the wall time of the poll, not at its steady time.

    The replay ends by the number of the poll: after a step back, earlier polls have later times.
    """
    story = {"silent": (then(keeping_up(7, members=False), 300, gone), 20.0), "slow": (reading(10), 20.0)}
    simulation = Simulation(story, from_topic=from_topic)
    journal = SimulatedJournal(tmp_path / "journal.db", simulation)
    simulation.run(200)
    journal.write(checkpoint=True)
    simulation.run(120)
    simulation.clock.step_wall(step)
    simulation.run(100)
    journal.write()
    rows = simulation.state.pipeline.evaluator.rows
    assert rows is not None
    live = {name_of(rows.store, row): rows.why(row) for row in range(len(rows.windows))}
    assert "4200 messages are unread" in live["slow/0"]
    report = report_of(journal, groups=NamePatterns(tuple(story)))
    assert {f"{row.topic}/{row.partition}": row.why for group in report.groups for row in group.partitions} == live


def test_windows_are_there_when_the_agent_stopped_with_a_checkpoint(tmp_path: Path) -> None:
    journal = SimulatedJournal(tmp_path / "journal.db", Simulation(STORY))
    journal.simulation.run(440)
    journal.write(checkpoint=True)
    rows = journal.simulation.state.pipeline.evaluator.rows
    assert rows is not None
    [group] = report_of(journal, groups=NamePatterns(("stuck",))).groups
    assert [row.why for row in group.partitions] == [
        rows.why(row) for row in range(len(rows.windows)) if name_of(rows.store, row) == "stuck/0"
    ]


def test_topics_and_statuses_narrow(written: SimulatedJournal) -> None:
    by_topic = report_of(written, topics=NamePatterns(("s*",)))
    assert {group.group for group in by_topic.groups} == {"stuck", "slow"}
    by_status = report_of(written, statuses=frozenset({"STOP", "WARN"}))
    assert [group.group for group in by_status.groups] == ["dead", "slow"]
    assert report_of(written, topics=NamePatterns(("nothing",))).notes() == ["no group has commits for topic nothing"]
    assert report_of(written, groups=NamePatterns(("nobody",))).notes() == ["no group nobody exists"]


def test_a_group_that_cannot_be_queried_is_stale(tmp_path: Path) -> None:
    simulation = Simulation({"g": (keeping_up(1), 20.0)})
    journal = SimulatedJournal(tmp_path / "journal.db", simulation)
    simulation.run(300)
    for _ in range(24):
        simulation.clock.advance(10)
        simulation.see("kafka", unreachable())
    journal.write()
    report = report_of(journal)
    assert report.lines(None)[1].split()[:4] == ["g", "OK", "stale", "4m"]
    assert report.exit_code() == 1
    assert report.document()["groups"][0]["stale"] is True
    assert any(note.startswith("could not query kafka for ") for note in report.notes())


def test_when_the_agent_is_dead_nothing_looks_fresh(written: SimulatedJournal) -> None:
    later = SettableClock(written.simulation.clock.wall_ms() + 3_600_000)
    report = StatusReport.of(read_views(written.path, later, with_windows=False), StatusQuery())
    lines = report.lines(None)[1:]
    assert {line.split()[0]: " stale 1h " in line for line in lines} == dict.fromkeys(STORY, True)
    assert report.notes() == ["the newest poll is 1h old: is the agent running?"]


def test_json_has_a_stable_shape(written: SimulatedJournal) -> None:
    document = report_of(written).document()
    assert set(document) == {"at", "clusters", "groups", "missing"}
    worst = document["groups"][0]
    assert set(worst) == {
        "cluster", "group", "status", "stale", "age_seconds", "unsure", "why", "state", "type", "members",
        "not_ok_partitions", "abandoned_partitions", "stale_partitions", "complete", "total_lag", "max_lag",
        "unknown_lag_partitions", "lost_messages", "max_lag_seconds", "max_lag_seconds_low", "max_lag_seconds_high",
        "consume_rate", "produce_rate", "catch_up_seconds", "falling_behind", "loss_seconds", "trend",
        "partition_count", "partitions",
    }  # fmt: skip
    assert (worst["status"], worst["partition_count"], worst["partitions"]) == ("STOP", 1, None)
    [dead] = report_of(written, groups=NamePatterns(("dead",))).document()["groups"]
    assert set(dead["partitions"][0]) == {
        "topic", "partition", "status", "why", "committed_offset", "lag", "lag_seconds", "lag_seconds_low",
        "lag_seconds_high", "lag_source", "seconds_since_moved", "lost_messages", "rule", "complete", "abandoned",
        "stale", "age_seconds", "consume_rate", "produce_rate", "catch_up_seconds", "loss_seconds",
    }  # fmt: skip


def test_unknown_settings_give_no_wrong_numbers(tmp_path: Path) -> None:
    """By Burrow's rules another rule decides than by the defaults."""
    burrow = Policies(PolicySettings(mode=Mode.BURROW))
    simulation = Simulation({"slow": (then(keeping_up(5), 100, reading(10)), 20.0)}, policies=burrow)
    journal = SimulatedJournal(tmp_path / "journal.db", simulation)
    simulation.run(900)
    journal.write()
    config = tmp_path / "lagwatch.yml"
    config.write_text("clusters: [{name: east, bootstrap: k:9092, verdicts: {mode: burrow}}]")

    def sentence(given: Path | None) -> str:
        views = read_views(journal.path, simulation.clock, "slow", config=given)
        [group] = StatusReport.of(views, StatusQuery(NamePatterns(("slow",)))).groups
        return group.partitions[0].why or ""

    rows = simulation.state.pipeline.evaluator.rows
    assert rows is not None
    assert sentence(config) == rows.why(0)
    assert "decided with the settings of the agent; to use them, add --config FILE" in sentence(None)


def test_ok_that_rests_on_too_little_is_marked() -> None:
    about = {"status": 1, "status_text": "OK", "why": "fine", "partitions": 1, "unknown_lag_partitions": 0}
    group = {"group": "g", **about, "total_lag": 7, "consume_rate": 0.0, "produce_rate": 1.0, "complete": 0.1}
    still = lag_row("g", "t", 0, 5, 7, seconds_since_moved=120.0, status=1, rule=7, complete=0.2)
    moving = lag_row("g", "t", 0, 5, 7, seconds_since_moved=3.0, status=1, rule=7, complete=0.2)
    for row, expected in ((still, "OK?"), (moving, "OK")):
        what = seen(batch("consumer_group", [group]), batch("consumer_lag", [row]))
        report = StatusReport.of([replace(what, watched_seconds=120.0)], StatusQuery())
        assert report.lines(None)[1].split()[1] == expected
        assert ("did not move in 2m of observation" in report.lines(None)[1]) == (expected == "OK?")
        assert any(line.startswith("OK? ") for line in report.hints()) == (expected == "OK?")
        assert report.hints()[0] == "observed for 2m: windows are 20% full"


def test_several_clusters_have_a_column(written: SimulatedJournal) -> None:
    [look] = read_views(written.path, written.simulation.clock, with_windows=False)
    assert StatusReport.of([look, look], StatusQuery()).lines(None)[0].split()[0] == "CLUSTER"


def test_on_a_narrow_terminal_the_reason_is_below(written: SimulatedJournal) -> None:
    lines = report_of(written).lines(80)
    assert all(len(line) <= 80 for line in lines)
    assert "all its members are gone" in lines[2]
    assert sum(line.startswith("    ") for line in lines) >= 3


def test_the_command_prints_data_on_stdout_and_messages_on_stderr(tmp_path: Path) -> None:
    simulation = Simulation(STORY, clock=SettableClock(time.time_ns() // 1_000_000 - 600_000))
    journal = SimulatedJournal(tmp_path / "journal.db", simulation)
    simulation.run(600)
    journal.write()
    ran = lagwatch("status", "--journal", journal.path)
    assert ran.code == 1
    assert [line.split()[0] for line in ran.lines] == ["GROUP", "dead", "stuck", "slow", "healthy"]
    assert "\x1b[" not in ran.stdout
    assert "4 groups: 1 STOP" in ran.stderr
    assert lagwatch("status", "--journal", journal.path, "--group", "healthy").code == 0
    bad = lagwatch("status", "--journal", journal.path, "--status", "FINE")
    assert bad.code == 2
    assert '"FINE" is not a status' in bad.stderr
    assert lagwatch("status", "--journal", tmp_path / "none.db").code == 2
    assert lagwatch("status").code == 2
    unknown = lagwatch("explain", "sloe", "--journal", journal.path)
    assert (unknown.code, unknown.stdout) == (2, "")
    assert unknown.stderr.strip() == "lagwatch: no group sloe exists: did you mean slow?"
    assert lagwatch("explain", "dead", "--journal", journal.path).code == 1


def test_a_group_of_which_no_lag_is_known_has_none_and_one_without_commits_says_so() -> None:
    unknown = {
        "group": "g",
        "status": 1,
        "status_text": "OK",
        "why": "fine",
        "partitions": 2,
        "unknown_lag_partitions": 2,
    }
    nothing = {"group": "h", "partitions": 0, "unknown_lag_partitions": 0, "total_lag": 0}
    report = StatusReport.of([seen(batch("consumer_group", [unknown, nothing]))], StatusQuery())
    found = {group.group: group for group in report.groups}
    assert found["g"].lag is None
    assert (found["h"].status, found["h"].why) == (None, "nothing committed")
