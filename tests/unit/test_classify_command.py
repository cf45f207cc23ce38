"""`lagwatch classify` as users run it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.harness.burrow_cases import cases, same_answer
from tests.harness.cli import Ran, command

GOOD = {"now": 100, "offsets": [{"offset": 4, "order": 1, "timestamp": 99_000, "lag": 5}], "broker_offsets": [9],
        "current_lag": 5}  # fmt: skip


def classify(mode: str, *lines: str | dict[str, Any], end: str = "\n") -> Ran:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end
    arguments = command("classify", "--mode", mode)
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=False, timeout=60)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("mode", ["partition", "group", "storage"])
def test_all_shared_cases_get_burrows_own_answers_through_the_command(mode: str) -> None:
    shared = cases(mode)
    assert shared
    ran = classify(mode, *(case["input"] for case in shared))
    found = [json.loads(line) for line in ran.lines]
    assert (ran.code, ran.stderr, len(found)) == (0, "", len(shared))
    different = [
        case["id"] for case, answer in zip(shared, found, strict=True) if not same_answer(mode, answer, case["expect"])
    ]
    assert different == []
    assert all(answer["why"] for answer in found)


def test_a_verdict_is_one_line_with_the_reason_and_the_id() -> None:
    ran = classify("partition", {**GOOD, "id": "mine"}, end="")
    slot = GOOD["offsets"][0]  # type: ignore[index]
    assert [json.loads(line) for line in ran.lines] == [
        {
            "id": "mine", "status": "STOP", "complete": 1, "current_lag": 5, "start": slot, "end": slot,
            "why": "STOP: silent 1 s since its only commit, while the log end is 9, past its offset 4",
        }
    ]  # fmt: skip
    assert ran.code == 0


def test_bad_lines_are_reported_by_number_and_skipped() -> None:
    ran = classify("partition", "{", GOOD, "", {**GOOD, "now": 1.5}, GOOD)
    assert (ran.code, len(ran.lines)) == (1, 2)
    assert [line.split(":")[1] for line in ran.stderr.splitlines()] == [" line 1", " line 4"]
    assert "now: 1.5 is not a whole number" in ran.stderr


@pytest.mark.parametrize("lines", [[""], ["[]", "nonsense"]], ids=["nothing", "nothing good"])
def test_without_a_valid_line_it_exits_2(lines: list[str]) -> None:
    ran = classify("group", *lines)
    assert (ran.code, ran.stdout) == (2, "")
    assert "no line of standard input could be evaluated" in ran.stderr


def slot(**changes: Any) -> dict[str, Any]:
    return {**GOOD, "offsets": [{"offset": 4, "order": 1, "timestamp": 99_000, "lag": 5, **changes}]}


BAD: list[tuple[str, str | dict[str, Any], str]] = [
    ("partition", "\xff{", "not JSON"),
    ("partition", "[" * 100_000, "not JSON"),
    ("partition", "7", "7 is not an object"),
    ("partition", {**GOOD, "now": 2**63}, "now: 9223372036854775808 is not a whole number from"),
    ("partition", {**GOOD, "allowed_lag": -1}, "allowed_lag: -1 is not a whole number from 0"),
    ("partition", {**GOOD, "minimum_complete": "all"}, 'minimum_complete: "all" is not a share (0 to 1)'),
    ("partition", {**GOOD, "current_lag": True}, "current_lag: true is not a whole number"),
    ("partition", {**GOOD, "offsets": None}, "offsets: null is not a list"),
    ("partition", {**GOOD, "offsets": [*GOOD["offsets"], None]}, "must come before filled ones"),  # type: ignore[misc]
    ("partition", {**GOOD, "offsets": [7]}, "offsets[0]: 7 is not a slot"),
    ("partition", {**GOOD, "broker_offsets": [1, "x"]}, 'broker_offsets[1]: "x" is not a whole number'),
    ("partition", {**GOOD, "owner": 7}, "owner: 7 is not text"),
    ("partition", slot(offset=2**63), "offsets[0].offset: 9223372036854775808 is not a whole number"),
    ("partition", slot(lag=-1), "offsets[0].lag: -1 is not a whole number from 0"),
    ("group", {"now": 1}, "topics: null is not an object of topics"),
    ("group", {"now": 1, "topics": {"t": [{}]}}, "topics.t[0].offsets: is missing"),
    ("group", {"now": 1, "topics": {"t": [3]}}, "topics.t[0]: 3 is not an object"),
    ("storage", {"now": 1}, "events: is missing"),
    ("storage", {"now": 1, "intervals": 0, "events": []}, "intervals: 0 is not a whole number from 1 to 32767"),
    ("storage", {"now": 1, "events": [{"type": "party"}]}, 'events[0].type: "party" is not one of broker, commit'),
    ("storage", {"now": 1, "events": [{"type": "delete_topic"}]}, "events[0].topic: null is not text"),
    ("storage", {"now": 1, "events": [{"type": "commit", "topic": "t", "partition": -1}]}, "events[0].partition: -1"),
    (
        "storage",
        {"now": 1, "events": [{"type": "owner", "topic": "t", "partition": 0, "owner": 3}]},
        "events[0].owner: 3 is not text",
    ),
]


@pytest.mark.parametrize("mode", ["partition", "group", "storage"])
def test_a_mistake_is_reported_with_its_position(mode: str) -> None:
    wanted = [(line, text) for kind, line, text in BAD if kind == mode]
    ran = classify(mode, *(line for line, _ in wanted))
    errors = ran.stderr.splitlines()[:-1]
    assert len(errors) == len(wanted)
    assert [(line, text) for line, (_, text) in zip(errors, wanted, strict=True) if text not in line] == []
    assert "Traceback" not in ran.stderr


def test_a_very_wide_window_among_narrow_ones_is_evaluated() -> None:
    wide = {**GOOD, "offsets": GOOD["offsets"] * 30_000}  # type: ignore[operator]
    ran = classify("partition", *[GOOD] * 60, wide, *[GOOD] * 60)
    assert [json.loads(line)["status"] for line in ran.lines] == ["STOP"] * 121


def test_a_verdict_is_printed_before_the_next_line_is_read() -> None:
    arguments = command("classify", "--mode", "partition")
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        for _ in range(3):
            process.stdin.write(json.dumps(GOOD).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["status"] == "STOP"
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_help_ends_with_an_example() -> None:
    done = subprocess.run(command("classify", "--help"), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip().splitlines()[-1].strip().startswith("Example: lagwatch classify")
