"""Windows as JSON lines of `lagwatch classify`, evaluated by the core without the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lagwatch.verdict.classify import Verdicts, classify_burrow
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.status import Status
from lagwatch.verdict.why import why_partition
from lagwatch.windows import Windows
from lagwatch.windows.build import WindowRow, windows_of

Line = dict[str, Any]


def windows_of_lines(lines: Sequence[Line]) -> Windows:
    """The windows of lines as columns."""
    return windows_of(
        [
            WindowRow(
                len(line["offsets"]), [slot for slot in line["offsets"] if slot], line["broker_offsets"], line["current_lag"]
            )
            for line in lines
        ]
    )  # fmt: skip


def policy_of_line(line: Line) -> Policy:
    """Burrow's rules with the settings of a line."""
    return Policy.of_burrow(1, line.get("allowed_lag", 0), line.get("minimum_complete", 0.0))


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One line with its verdict."""

    verdicts: Verdicts
    status: str
    why: str


def evaluate_line(line: Line) -> Evaluated:
    """Evaluate one line by Burrow's rules."""
    windows, policy = windows_of_lines([line]), policy_of_line(line)
    verdicts = classify_burrow(windows, policy, line["now"])
    inputs = RuleInputs.of_burrow(windows, policy, 0, line["now"] * 1000)
    return Evaluated(verdicts, Status(verdicts.status[0]).name, why_partition(int(verdicts.rule[0]), inputs))
