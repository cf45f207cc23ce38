"""The operations page says for every key what a reload changes, in agreement with the code."""

from __future__ import annotations

import re
from pathlib import Path

from lagwatch.config import ClusterSettings, Settings
from lagwatch.event_kinds import EventKind
from lagwatch.runtime.agent import NEEDS_RESTART

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
RELOAD = PAGE.split("### What a reload changes\n")[1].split("\n## ")[0]


def _rows(head: str) -> list[tuple[str, str]]:
    """The rows of the table with this first cell in its head."""
    table = RELOAD.split(f"| {head} |")[1].split("\n\n")[0]
    return re.findall(r"(?m)^\| (`.*?) \| (.*?) \|$", table)


def test_what_needs_a_restart_is_what_the_agent_refuses_with_its_reason() -> None:
    assert {key.strip("`"): why for key, why in _rows("needs a restart")} == NEEDS_RESTART


def test_every_section_and_every_key_of_a_cluster_has_an_effect() -> None:
    """`clusters[].topics`, `groups` are two keys of a cluster; `name` is what a cluster is known by."""
    named: set[str] = set()
    for keys, _ in _rows("changed"):
        first, *others = re.findall(r"`(.*?)`", keys)
        section = first.rpartition(".")[0]
        named |= {first, *(key if "." in key or not section else f"{section}.{key}" for key in others)}
    cluster = {f"clusters[].{key}" for key in ClusterSettings.model_fields if key != "name"}
    assert named == {*Settings.model_fields, *cluster}


def test_the_events_it_names_exist() -> None:
    assert set(re.findall(r"\w+_gone", RELOAD)) == {EventKind.TOPIC_GONE.value, EventKind.GROUP_GONE.value}
