"""`lagwatch demo` as users run it: the status of each group, a killed broker, and cleanup."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lagwatch.demo.workload import GROUP_DESCRIPTIONS
from lagwatch.journal import JournalReader
from lagwatch.source_names import KAFKA
from tests.harness.cli import command, lagwatch, on_terminal
from tests.harness.processes import is_running
from tests.harness.waiting import wait_until

_END_SECONDS = 30  # ten on an idle machine

Rows = Sequence[dict[str, Any]]  # one group's, oldest first


class RunningDemo:
    """A demo in a process of its own; all its temporary folders are made in `folder`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.said = folder.parent / "stderr"
        self._printed = folder.parent / "stdout"
        self._documents: list[dict[str, Any]] = []
        with self.said.open("wb") as stderr, self._printed.open("wb") as stdout:
            self.process = subprocess.Popen(
                command("demo", *options), stdout=stdout, stderr=stderr, env={**os.environ, "TMPDIR": str(folder)}
            )

    @property
    def documents(self) -> list[dict[str, Any]]:
        """What it has printed so far."""
        lines = self._printed.read_text().splitlines(keepends=True)
        self._documents += [json.loads(line) for line in lines[len(self._documents) :] if line.endswith("\n")]
        return self._documents

    def rows(self, group: str) -> Rows:
        return [row for document in self.documents for row in document["groups"] if row["group"] == group]

    def children(self) -> list[int]:
        """The processes it started: brokers, the agent, and what removes folders."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(_END_SECONDS)


@contextmanager
def running_demo(tmp_path: Path, *options: str) -> Iterator[RunningDemo]:
    folder = tmp_path / "temporary"
    folder.mkdir()
    demo = RunningDemo(folder, *options)
    try:
        yield demo
    finally:
        demo.process.kill()
        demo.process.wait()


def grew(rows: Rows, name: str, by: int) -> bool:
    known = [row[name] for row in rows if row[name] is not None]
    return bool(known) and known[-1] - known[0] >= by


def fell(rows: Rows, name: str) -> bool:
    return any(
        later[name] < earlier[name] for earlier, later in pairwise(rows) if None not in (later[name], earlier[name])
    )


def stood_still(rows: Rows, members: int) -> Rows:
    """The newest rows, as long as nothing new was committed and the members stayed."""
    newest = [row for row in rows if row["committed"] == rows[-1]["committed"] and row["members"] == members]
    return newest if rows and rows[-1]["members"] == members else []


def described(rows: Rows) -> Rows:
    """Without rows before the first response of the group's coordinator."""
    return [row for row in rows if row["members"] is not None]


LOOKS: dict[str, Callable[[Rows], bool]] = {
    "healthy": lambda rows: rows[-1]["members"] == 2 and grew(rows, "committed", 300) and rows[-1]["lag"] < 150,
    "slow": lambda rows: grew(rows, "lag", 100) and grew(rows, "committed", 300),
    "stalled-committing": lambda rows: grew(stood_still(rows, members=1), "lag", 60),
    "stopped": lambda rows: rows[0]["members"] == 1 and grew(stood_still(rows, members=0), "lag", 60),
    "rewound": lambda rows: fell(rows, "committed") and rows[-1]["lag"] < max(row["lag"] for row in rows),
    "bursty": lambda rows: fell(rows, "lag") and any((row["still_seconds"] or 0) > 10 for row in rows),
    "transactional": lambda rows: grew(rows, "committed", 200) and rows[-1]["lag"] < 200,
    "commits-every-2m": lambda rows: rows[-1]["committed"] > 0 and grew(stood_still(rows, members=1), "lag", 200),
    "no-members": lambda rows: (
        len({row["committed"] for row in rows} - {0}) > 1
        and {(row["state"], row["protocol_type"], row["members"]) for row in described(rows)} == {("Empty", "", 0)}
    ),
    # A broker that is killed while a member leaves keeps that member until its session times out.
    "restarting": lambda rows: {row["members"] for row in described(rows)} >= {0, 1} and rows[-1]["rebalances"] > 0,
}

SICK = {"slow": "WARN", "stalled-committing": "STALL", "stopped": "STOP", "rewound": "REWIND"}


@pytest.mark.timeout(600)
def test_every_group_looks_as_it_is_called_and_a_killed_broker_comes_back(tmp_path: Path) -> None:
    assert LOOKS.keys() == GROUP_DESCRIPTIONS.keys()
    with running_demo(tmp_path, "--json", "--every", "1s") as demo:
        seen: set[str] = set()

        def looks_right() -> bool:
            seen.update(name for name, views in LOOKS.items() if demo.rows(name) and views(demo.rows(name)))
            return seen == GROUP_DESCRIPTIONS.keys()

        def under_replicated() -> int:
            return int(demo.documents[-1]["cluster"]["under_replicated_partitions"])

        wait_until(lambda: "stopped" in seen or looks_right(), 120, lambda: f"only {seen}; {demo.said.read_text()}")
        killed = demo.documents[-1]["brokers"][2]
        written = demo.rows("healthy")[-1]["committed"]
        os.kill(killed["pid"], signal.SIGKILL)
        wait_until(lambda: under_replicated() > 0, 60, "nobody missed the killed broker")
        wait_until(lambda: demo.rows("healthy")[-1]["committed"] > written + 60, 60, "producing or consuming stopped")
        wait_until(lambda: demo.documents[-1]["brokers"][2]["running"] and not under_replicated(), 120, "not recovered")
        assert demo.documents[-1]["brokers"][2]["pid"] != killed["pid"]
        wait_until(
            looks_right, 150, lambda: str({name: demo.rows(name)[-5:] for name in GROUP_DESCRIPTIONS.keys() - seen})
        )

        def statuses() -> dict[str, set[str]]:
            return {name: {row["status"] for row in demo.rows(name)} - {""} for name in GROUP_DESCRIPTIONS}

        wait_until(
            lambda: all(status in statuses()[name] for name, status in SICK.items()), 180, lambda: str(statuses())
        )
        others = {name: found for name, found in statuses().items() if name not in SICK}
        assert others == {name: {"OK"} for name in others}, "also while a broker was down"

        journal = JournalReader(demo.documents[-1]["journal"])
        [newest] = [batch for batch in journal.newest("demo", ["topic_partition"]) if batch.source == KAFKA]
        ends = newest.rows.to_pylist()
        assert sum(row["log_end_offset"] for row in ends if row["topic"] == "orders-priced") > 200
        ran = lagwatch("lag", "--bootstrap", demo.documents[-1]["bootstrap"], "--json")
        assert (ran.code, {group["group"] for group in ran.json["groups"]}) == (0, set(GROUP_DESCRIPTIONS))

        children = demo.children()
        brokers = {broker["pid"] for broker in demo.documents[-1]["brokers"]}
        assert brokers < set(children)
        assert demo.end(signal.SIGINT) == 0
        assert [pid for pid in children if is_running(pid)] == []
        assert list(demo.folder.iterdir()) == []
        assert "Traceback" not in demo.said.read_text()


def test_a_screen_that_ends_by_itself_and_a_folder_that_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shown = on_terminal(["demo", "--for", "8s", "--keep", kept], columns=140, timeout=120)
    assert "starting three brokers of Kafka 4.3.1" in shown
    assert "WHAT IT DOES" in shown
    assert all(what in shown for what in GROUP_DESCRIPTIONS.values())
    assert f"kept in {kept}" in shown
    assert {"journal.db", "lagwatch.yml", "agent.log"} <= {file.name for file in kept.iterdir()}
    assert "Traceback" not in shown
    read_again = lagwatch("lag", "--journal", kept / "journal.db", "--json")
    assert {group["group"] for group in read_again.json["groups"]} <= GROUP_DESCRIPTIONS.keys()
    assert read_again.json["groups"]

    again = lagwatch("demo", "--keep", kept)
    assert again.code == 2
    assert "has the journal of an earlier demo" in again.stderr


def test_a_demo_stopped_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--headless") as demo:
        wait_until(lambda: len(demo.children()) >= 4, 60, "no broker was started")
        children = demo.children()
        assert demo.end(signal.SIGTERM) == 0
        wait_until(lambda: not any(map(is_running, children)), 10, "a child is left")
        wait_until(lambda: not list(demo.folder.iterdir()), 10, "a folder is left")
        assert "Traceback" not in demo.said.read_text()


def test_without_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        command("demo", "--headless"),
        env={**os.environ, "JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    [line] = done.stderr.splitlines()
    assert "Run: apt-get install openjdk-17-jre-headless" in line
