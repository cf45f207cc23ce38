"""`lagwatch explain`: windows, plots, facts and rules, over journals of simulated consumers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lagwatch.cli.explain_command import no_such_group
from lagwatch.cli.explain_plot import ASCII, UNICODE, characters_for, plot
from lagwatch.cli.explain_view import explained_lines
from lagwatch.cli.status_report import StatusQuery, StatusReport
from lagwatch.evaluation import Policies, PolicySettings
from lagwatch.snapshot.documents import explain_document, partition_explanation
from lagwatch.snapshot.explain import ExplainedPartition
from lagwatch.snapshot.names import NamePatterns
from lagwatch.verdict.policy import ALL_EXTENSIONS, Extension
from lagwatch.verdict.rules import RULES
from lagwatch.verdict.status import Mode, VerdictRule
from tests.harness.polls import unreachable
from tests.harness.simulated_consumers import (
    Behaviour,
    Log,
    Rate,
    SimulatedGroup,
    Simulation,
    gone,
    keeping_up,
    reading,
    standing_still,
    then,
)
from tests.harness.simulated_journal import SimulatedJournal, name_of, read_views


def rewinding(second: int, log: Log, group: SimulatedGroup) -> None:
    if second == 500:
        group.commit(0)
    elif second < 500:
        group.commit(int(log.end))


STORY: dict[str, tuple[Behaviour, Rate]] = {
    "healthy": (keeping_up(1), 20.0),
    "dead": (then(keeping_up(1), 300, gone), 20.0),
    "stuck": (then(keeping_up(1), 300, standing_still()), 20.0),
    "slow": (reading(10), 20.0),
    "rewound": (rewinding, 20.0),
}
DECIDING = {
    "healthy": VerdictRule.CAUGHT_UP,
    "dead": VerdictRule.MEMBERS_GONE,
    "stuck": VerdictRule.STALLED,
    "slow": VerdictRule.FALLS_BEHIND,
    "rewound": VerdictRule.REWOUND,
}


def explain(simulation: Simulation, path: Path, group: str) -> ExplainedPartition:
    """The only partition of a group, explained."""
    [look] = read_views(path, simulation.clock, group)
    [found] = StatusReport.of([look], StatusQuery(NamePatterns((group,)))).groups
    [row] = found.partitions
    assert look.evaluated is not None
    assert row.row is not None
    return ExplainedPartition.of(row, look.evaluated, row.row, None)


def journal_of(path: Path, simulation: Simulation, seconds: int) -> SimulatedJournal:
    journal = SimulatedJournal(path / "journal.db", simulation)
    simulation.run(seconds)
    journal.write()
    return journal


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> SimulatedJournal:
    return journal_of(tmp_path_factory.mktemp("explain"), Simulation(STORY), 540)


@pytest.mark.parametrize("group", STORY)
def test_the_rule_that_decided_is_marked_with_its_numbers(written: SimulatedJournal, group: str) -> None:
    explained = explain(written.simulation, written.path, group)
    [deciding] = [line for line in explained.rules if line.decides]
    assert deciding.spec.number == DECIDING[group]
    assert len(explained.rules) == len(RULES)
    lines = explained_lines(explained, ASCII, None)
    [marked] = [line for line in lines if line.startswith("=>")]
    assert deciding.numbers in marked
    assert all(len(line) <= 100 for line in explained_lines(explained, UNICODE, 100)[1:])


def test_each_rule_shows_its_numbers(written: SimulatedJournal) -> None:
    expected = {line.spec.number: line for line in explain(written.simulation, written.path, "dead").rules}
    assert expected[VerdictRule.MEMBERS_GONE].numbers.startswith("all are gone; not moved for ")
    assert expected[VerdictRule.ONLY_GROWS].answer == "off", "the trend replaces it"
    assert not expected[VerdictRule.SILENT].is_reached
    assert expected[VerdictRule.CAUGHT_UP].is_reached
    slow = {line.spec.number: line for line in explain(written.simulation, written.path, "slow").rules}
    assert "of 45 pairs 45 rise and 0 fall" in slow[VerdictRule.FALLS_BEHIND].numbers


def test_a_stall_shows_why_it_need_not_wait(tmp_path: Path) -> None:
    def of(folder: str, worked_seconds: int, simulated_seconds: int, *, from_topic: bool) -> dict[int, Any]:
        (tmp_path / folder).mkdir()
        stalls = Simulation({"g": (then(keeping_up(2), worked_seconds, standing_still()), 20.0)}, from_topic=from_topic)
        journal = journal_of(tmp_path / folder, stalls, simulated_seconds)
        return {line.spec.number: line for line in explain(journal.simulation, journal.path, "g").rules}

    moved = of("moved", 300, 430, from_topic=False)
    assert moved[VerdictRule.STALLED].decides
    assert moved[VerdictRule.STALLED].numbers.endswith(", twice that while a move is in the window")
    assert moved[VerdictRule.HAD_NO_LAG].numbers.endswith("; but it has not moved for twice the time allowed")
    new = of("new", 10, 120, from_topic=True)
    assert new[VerdictRule.STALLED].decides
    assert new[VerdictRule.STALLED].numbers.endswith(", or 1m with a full window")


def test_the_window_is_that_of_the_running_agent(written: SimulatedJournal) -> None:
    explained = explain(written.simulation, written.path, "slow")
    rows = written.simulation.state.pipeline.evaluator.rows
    assert rows is not None
    [row] = [row for row in range(len(rows.windows)) if name_of(rows.store, row) == "slow/0"]
    assert [slot.offset for slot in explained.slots] == rows.windows.offset[row].tolist()
    assert [slot.lag for slot in explained.slots] == rows.windows.lag[row].tolist()
    assert [slot.step for slot in explained.slots] == [None, *[100] * 9]
    table = explained_lines(explained, ASCII, None)[2:13]
    assert table[0].split() == ["SLOT", "WHEN", "AGO", "OFFSET", "STEP", "LAG"]
    assert table[1].split()[0] == "1"
    assert table[-1].split()[3:5] == [str(explained.slots[-1].offset), "+100"]


def test_by_burrows_rules_its_own_seven_are_shown(tmp_path: Path) -> None:
    simulation = Simulation({"g": (reading(10), 20.0)}, policies=Policies(PolicySettings(mode=Mode.BURROW)))
    journal = journal_of(tmp_path, simulation, 300)
    config = tmp_path / "lagwatch.yml"
    config.write_text("clusters: [{name: east, bootstrap: k:9092, verdicts: {mode: burrow}}]")
    [look] = read_views(journal.path, simulation.clock, "g", config=config)
    [group] = StatusReport.of([look], StatusQuery(NamePatterns(("g",)))).groups
    assert look.evaluated is not None
    explained = ExplainedPartition.of(group.partitions[0], look.evaluated, 0, None)
    assert explained.inputs.is_burrow
    assert [line.spec.number for line in explained.rules] == [0, 8, 1, 2, 3, 4, 5, 6, 7]
    assert partition_explanation(explained)["mode"] == "burrow"


def test_disabled_extensions_show_as_off(tmp_path: Path) -> None:
    reduced = Policies(PolicySettings(extensions=ALL_EXTENSIONS & ~Extension.TREND & ~Extension.LOSS))
    simulation = Simulation({"g": (reading(10), 20.0)}, policies=reduced)
    journal = journal_of(tmp_path, simulation, 300)
    config = tmp_path / "lagwatch.yml"
    config.write_text("clusters: [{name: east, bootstrap: k:9092, verdicts: {disable: [trend, loss]}}]")
    [look] = read_views(journal.path, simulation.clock, "g", config=config)
    [group] = StatusReport.of([look], StatusQuery(NamePatterns(("g",)))).groups
    assert look.evaluated is not None
    answers = {
        line.spec.number: line.answer
        for line in ExplainedPartition.of(group.partitions[0], look.evaluated, 0, None).rules
    }
    assert (answers[VerdictRule.FALLS_BEHIND], answers[VerdictRule.LOST], answers[VerdictRule.ONLY_GROWS]) == (
        "off",
        "off",
        "yes",
    )


def test_a_kept_verdict_is_marked(tmp_path: Path) -> None:
    simulation = Simulation({"g": (then(keeping_up(1), 300, gone), 20.0)})
    simulation.run(340)
    for _ in range(24):
        simulation.clock.advance(10)
        simulation.see("kafka", unreachable())
    journal = SimulatedJournal(tmp_path / "journal.db", simulation)
    journal.write()
    explained = explain(simulation, journal.path, "g")
    assert explained.verdict.status == "OK"
    lines = explained_lines(explained, ASCII, None)
    assert lines[0].startswith("g/0  OK: ")
    assert lines[-1] == ("rule 4 (had no lag) decided at the last successful poll: a stale partition keeps its verdict")


def test_json_holds_window_facts_and_rules(written: SimulatedJournal) -> None:
    explained = explain(written.simulation, written.path, "stuck")
    document: dict[str, Any] = json.loads(json.dumps(partition_explanation(explained)))
    assert document["status"] == "STALL"
    assert set(document["window"][0]) == {"slot", "at_ms", "offset", "step", "lag"}
    assert document["facts"]["has_members"] is True
    assert document["facts"]["patience_seconds"] == 60
    [deciding] = [rule for rule in document["rules"] if rule["decides"]]
    assert (deciding["rule"], deciding["name"], deciding["answer"]) == (5, "stalled", "yes")


def test_an_unknown_group_suggests_similar_names() -> None:
    assert no_such_group("biling", ["billing", "mail"]) == "no group biling exists: did you mean billing?"
    assert no_such_group("x", ["billing", "mail"]) == "no group x exists (2 others do)"
    assert no_such_group("BILL", ["prod-billing-eu", "mail"]) == "no group BILL exists: did you mean prod-billing-eu?"


def test_the_picture_shows_what_is_read_and_what_is_not() -> None:
    minute = 60_000
    lines = plot([(0, 0), (minute, 50)], [(0, 0), (2 * minute, 100)], 2 * minute, ASCII)
    assert len(lines) == 10
    assert lines[0].startswith("100 |")
    assert lines[0].endswith(".")
    assert "#" not in lines[0]
    assert lines[7] == "  0 |" + "#" * 60
    assert lines[8].startswith("lag | ")
    assert lines[9].split() == ["2m", "ago", "now", "#", "read", ".", "unread"]
    assert all(line.isascii() for line in lines)


def test_where_there_is_nothing_to_draw_nothing_is_drawn() -> None:
    assert plot([], [(0, 5)], 1000) == []
    assert plot([(1000, 5)], [(1000, 5)], 1000) == []
    assert plot([(0, 5)], [(0, 5)], 60_000) == ["nothing produced and nothing read for 1m: log end and offset are 5"]


def test_blocks_only_where_the_terminal_can_show_them() -> None:
    assert characters_for("utf-8") is UNICODE
    assert characters_for("ascii") is ASCII
    assert characters_for("latin-1") is ASCII
    assert characters_for(None) is ASCII


def test_the_document_has_the_group_and_where_its_commits_come_from(written: SimulatedJournal) -> None:
    [look] = read_views(written.path, written.simulation.clock, "stuck")
    [group] = StatusReport.of([look], StatusQuery(NamePatterns(("stuck",)))).groups
    explained = explain(written.simulation, written.path, "stuck")
    document = explain_document(look, group, [explained], "polls", "no ACL")
    assert (document["group"]["group"], document["group"]["status"]) == ("stuck", "STALL")
    assert (document["commits_from"], document["commits_fallback"]) == ("polls", "no ACL")
    assert [partition["partition"] for partition in document["group"]["partitions"]] == [0]
    assert document["cluster"]["cluster"] == "east"
