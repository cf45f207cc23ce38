"""Dashboards equal the generator's output, use only names of the catalogue, match Grafana's types, and are documented."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import ValueMap, ValueMappingResult

from grafana.generator import palette
from grafana.generator.boards import UIDS
from grafana.generator.flux import check
from grafana.generator.output import FOLDER, boards, files
from lagwatch.catalogue import BUILT_IN, CLUSTER
from lagwatch.verdict.status import Status
from tests.harness.grafana import Query, dashboards, queries
from tests.harness.grafana_types import complaints

_BUILT_IN_COLUMNS = {"_time", "_value", "_field", "_measurement"}


def every_query() -> list[Query]:
    return [query for name, dashboard in dashboards().items() for query in queries(name, dashboard)]


def unknown_names(text: str) -> set[str]:
    """Measurements, fields and tags of a query that the catalogue does not have."""
    [measurement] = set(re.findall(r'_measurement == "(\w+)"', text))
    if measurement not in BUILT_IN:
        return {measurement}
    table = BUILT_IN[measurement]
    fields, tags = {field.name for field in table.fields}, {tag.name for tag in table.tags}
    made = set(re.findall(r"[{,(] ?(?:r with )?(\w+): ", text))  # columns the query itself makes
    named = set(re.findall(r'_field == "(\w+)"', text)) - fields
    used = set(re.findall(r"\br\.(\w+)", text)) - fields - tags - _BUILT_IN_COLUMNS - made
    listed = {name for one in re.findall(r"columns: \[(.*?)\]", text) for name in re.findall(r'"(\w+)"', one)}
    filtered = set(re.findall(r"r\.(\w+) =~", text)) - tags
    return named | used | filtered | listed - fields - tags - _BUILT_IN_COLUMNS - made


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_committed_dashboards_equal_the_generators_output(path: Path) -> None:
    assert path.read_text() == files()[path], "run: python -m grafana.generator"


def test_no_dashboard_is_left_over() -> None:
    assert set(dashboards()) == {board.file for board in boards()}


@pytest.mark.parametrize("query", every_query(), ids=str)
def test_a_query_names_only_what_the_catalogue_has(query: Query) -> None:
    assert unknown_names(query.text) == set()


def test_a_planted_wrong_name_is_found() -> None:
    text = next(q.text for q in every_query() if '_field == "total_lag"' in q.text)
    assert unknown_names(text.replace('_field == "total_lag"', '_field == "total_lagg"')) == {"total_lagg"}
    assert unknown_names(text.replace('"consumer_group"', '"consumer_groups"')) == {"consumer_groups"}
    assert unknown_names(text.replace("r.cluster =~", "r.custer =~")) == {"custer"}


def test_the_generator_refuses_a_name_the_catalogue_does_not_have() -> None:
    with pytest.raises(ValueError, match="table cluster has no brokerz"):
        check(CLUSTER, ["brokers", "brokerz"])


def test_dashboards_fit_grafanas_own_types(tmp_path: Path) -> None:
    assert complaints({name: json.dumps(board) for name, board in dashboards().items()}, tmp_path) == []


def test_planted_type_errors_are_found(tmp_path: Path) -> None:
    sound = dashboards()["overview"]
    faults: dict[str, Callable[[dict[str, Any]], None]] = {
        "title": lambda b: b.update(title=3),
        "mode": lambda b: panel(b)["fieldConfig"]["defaults"]["thresholds"].update(mode="absolut"),
        "property": lambda b: panel(b).update(titel="x"),
    }
    broken = {}
    for name, plant in faults.items():
        board = copy.deepcopy(sound)
        plant(board)
        broken[name] = json.dumps(board)

    found = complaints(broken, tmp_path)

    assert {line.partition(".ts(")[0] for line in found if ".ts(" in line} == set(faults)


def panel(board: dict[str, Any]) -> dict[str, Any]:
    """The first that is no row."""
    found: dict[str, Any] = next(one for one in board["panels"] if one["type"] != "row")
    return found


def test_every_board_has_the_common_settings() -> None:
    for name, board in dashboards().items():
        assert board["uid"] == UIDS[name]
        assert board["links"][0]["type"] == "dashboards"
        assert {one["name"] for one in board["annotations"]["list"]} == {"Status changes", "Rebalances"}
        variables = [one["name"] for one in board["templating"]["list"]]
        assert variables[0] == "datasource"
        first_row = [one for one in board["panels"] if one["gridPos"]["y"] <= board["panels"][1]["gridPos"]["y"]]
        assert {one["type"] for one in first_row} == {"row", "stat"}, f"{name}: stats come first"


def test_no_panel_names_a_data_source_of_its_own() -> None:
    for board in dashboards().values():
        text = json.dumps(board)
        assert set(re.findall(r'"uid": "([^"]*)"', text)) == {board["uid"], "${datasource}"}


def test_every_panel_says_its_unit_and_why_it_is_empty() -> None:
    for board in dashboards().values():
        for one in board["panels"]:
            if one["type"] == "row":
                continue
            assert re.match(r"no\b|nothing\b", one["fieldConfig"]["defaults"]["noValue"]), one["title"]
            if one["type"] in ("stat", "timeseries"):
                assert one["fieldConfig"]["defaults"].get("unit"), one["title"]


def shown_statuses() -> dict[str, ValueMappingResult]:
    """How each number is shown."""
    [mapping] = palette.status_mappings()
    assert isinstance(mapping, ValueMap)
    return mapping.options


def test_statuses_have_one_colour_each_and_stale_is_never_green() -> None:
    shown = shown_statuses()
    for status in Status:
        assert shown[str(int(status))].text == status.name
        assert shown[str(status + palette.STALE_ADDS)].color == palette.STALE
    colours = [shown[str(int(status))].color for status in Status]
    assert len({*colours, palette.STALE}) == len(colours) + 1
    assert colours.count(palette.GOOD) == 1


def test_panels_of_statuses_share_the_mapping() -> None:
    wanted = {key: {"text": one.text, "color": one.color} for key, one in shown_statuses().items()}
    found = 0
    for board in dashboards().values():
        for options in _mappings(board):
            if "11" in options:
                assert options == wanted
                found += 1
    assert found >= 6


def _mappings(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        own = [node["options"]] if node.get("type") == "value" else []
        return own + [one for value in node.values() for one in _mappings(value)]
    return [one for value in node for one in _mappings(value)] if isinstance(node, list) else []


def test_panels_do_not_overlap() -> None:
    for name, board in dashboards().items():
        taken: dict[tuple[int, int], str] = {}
        for one in board["panels"]:
            at = one["gridPos"]
            assert at["x"] + at["w"] <= 24, f"{name}: {one['title']} is too wide"
            for cell in [(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]:
                assert cell not in taken, f"{name}: {one['title']} lies on {taken[cell]}"
                taken[cell] = one["title"]


def test_provisioning_and_compose_fit_together() -> None:
    [source] = yaml.safe_load((FOLDER / "provisioning/datasources/lagwatch.yml").read_text())["datasources"]
    [provider] = yaml.safe_load((FOLDER / "provisioning/dashboards/lagwatch.yml").read_text())["providers"]
    compose = yaml.safe_load((FOLDER / "compose.yml").read_text())
    grafana = compose["services"]["grafana"]

    assert (source["type"], source["jsonData"]["version"]) == ("influxdb", "Flux")
    mounted = {one.split(":")[1]: one.split(":")[0] for one in grafana["volumes"]}
    assert (FOLDER / mounted["/etc/grafana/provisioning"]).resolve() == FOLDER / "provisioning"
    assert (FOLDER / mounted[provider["options"]["path"]]).resolve() == FOLDER / "dashboards"
    named = set(re.findall(r"\$(\w+)", (FOLDER / "provisioning/datasources/lagwatch.yml").read_text()))
    assert named == set(grafana["environment"]) & named
