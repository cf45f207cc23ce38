"""One partition explained: its window, a plot, the facts and the rules, as lines and as JSON. Pure."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lagwatch.cli import output
from lagwatch.cli.explain_plot import Ink, plot
from lagwatch.cli.explain_rules import RuleLine, rule_lines
from lagwatch.cli.lag_rows import GroupMember
from lagwatch.cli.output import TableColumn
from lagwatch.cli.status_cells import COLOURS, catch_up_cell, retention_cell, time_lag_cell
from lagwatch.cli.status_rows import PartitionVerdict
from lagwatch.cli.status_table import partition_json
from lagwatch.evaluation import EvaluatedRows
from lagwatch.text import duration_text
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.rules import BY_NUMBER
from lagwatch.verdict.why import with_status

_SLOTS = (
    TableColumn("SLOT", right=True), TableColumn("WHEN"), TableColumn("AGO", right=True), TableColumn("OFFSET", right=True),
    TableColumn("STEP", right=True), TableColumn("LAG", right=True),
)  # fmt: skip
_RULES = (TableColumn(""), TableColumn("RULE", right=True), TableColumn("QUESTION"), TableColumn("HOLDS"))
_LEAST_ROOM = 40
_SOURCES = {0: "nothing is unread", 1: "from observed log ends", 2: "from a lookup by timestamp"}


@dataclass(frozen=True, slots=True)
class Slot:
    """One commit of a window, with the lag at that time; `step` is the difference to the offset before."""

    number: int
    at_ms: int
    offset: int
    step: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Explained:
    """One partition, with everything its verdict is based on."""

    verdict: PartitionVerdict
    slots: list[Slot]
    ends: list[tuple[int, int]]  # ms and log end, oldest first
    rules: list[RuleLine]
    inputs: RuleInputs
    now_ms: int
    owner: GroupMember | None

    @classmethod
    def of(cls, verdict: PartitionVerdict, evaluated: EvaluatedRows, row: int, owner: GroupMember | None) -> Explained:
        """Explain one row."""
        return cls(
            verdict, slots_of(evaluated, row), _ends(evaluated, row), rule_lines(evaluated, row), evaluated.rule_inputs(row),
            evaluated.now_ms, owner,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """`topic/partition`."""
        return f"{self.verdict.topic}/{self.verdict.partition}"

    def lines(self, ink: Ink, width: int | None) -> list[str]:
        """The text for the terminal."""
        colour = COLOURS.get(self.verdict.status or "")
        why = with_status(self.verdict.status or "-", self.verdict.why or "")
        title = output.one_line(f"{self.name}  {why}")
        parts = [
            self._window_lines(),
            plot([(slot.at_ms, slot.offset) for slot in self.slots], self.ends, self.now_ms, ink),
            self._fact_lines(),
            self._rule_lines(width),
        ]
        lines = [output.paint(title, colour or "bright_white", bold=True)]
        for part in parts:
            lines += ["", *part] if part else []
        return lines

    def document(self) -> dict[str, Any]:
        """As JSON."""
        inputs = self.inputs
        return {
            **partition_json(self.verdict),
            "mode": "burrow" if inputs.is_burrow else "lagwatch",
            "window": [
                {"slot": slot.number, "at_ms": slot.at_ms, "offset": slot.offset, "step": slot.step, "lag": slot.lag}
                for slot in self.slots
            ],
            "slots": inputs.window.width,
            "ends": [{"at_ms": at_ms, "offset": end} for at_ms, end in self.ends],
            "facts": {
                "still_seconds": inputs.still,
                "longest_gap_seconds": inputs.gap or None,
                "patience_seconds": inputs.patience,
                "unread_seconds_low": inputs.unread,
                "log_start_offset": None if inputs.log_start < 0 else inputs.log_start,
                "remainder": inputs.remainder,
                "had_members": inputs.had_members,
                "has_members": inputs.has_members,
                "member": self.owner.member if self.owner else None,
            },
            "rules": [
                {
                    "rule": line.spec.number, "name": line.spec.identifier, "answer": line.answer,
                    "decides": line.decides, "reached": line.is_reached, "numbers": line.numbers,
                }
                for line in self.rules
            ],
        }  # fmt: skip

    def _window_lines(self) -> list[str]:
        if not self.slots:
            return []
        cells = [
            [
                str(slot.number), output.clock_time(slot.at_ms)[11:], duration_text(max(self.now_ms - slot.at_ms, 0) / 1000),
                str(slot.offset), "-" if slot.step is None else f"{slot.step:+d}" if slot.step else "0",
                "?" if slot.lag is None else str(slot.lag),
            ]
            for slot in self.slots
        ]  # fmt: skip
        head, *lines = output.table_lines(_SLOTS, cells)
        return [output.heading(head), *lines]

    def _fact_lines(self) -> list[str]:
        inputs, about = self.inputs, self.verdict.about
        offset = about["committed_offset"]
        end = inputs.window.ends[-1] if inputs.window.ends else None
        start = "unknown" if inputs.log_start < 0 else inputs.log_start
        gap = (
            f"longest recent gap between moves {duration_text(inputs.gap)}"
            if inputs.gap
            else "less than two moves observed"
        )
        source = f", {_SOURCES[about['lag_source']]}" if about["lag_source"] in _SOURCES else ""
        catch_up = catch_up_cell(about["lag"], self.verdict.catch_up_seconds, is_known=True)
        reads = f"reads {self.verdict.consume_rate or 0:.3g}/s, {self.verdict.produce_rate or 0:.3g}/s arrive"
        owner = "not assigned" if self.owner is None else f"assigned to {self.owner.client_id} ({self.owner.host})"
        members = "has members" if inputs.has_members else "had members" if inputs.had_members else "never had members"
        facts = [
            ("offsets", f"committed {offset}, log end {end}, log start {start}"),
            ("lag", f"{about['lag']} messages" + (f"; {inputs.remainder} may be markers" if inputs.remainder else "")),
            ("time lag", time_lag_cell(about, "lag_seconds") + source),
            (
                "moves",
                f"last moved {duration_text(inputs.still)} ago; {gap}; patience {duration_text(inputs.patience)}",
            ),
            ("rates", f"{reads}; {'catches up in ' if catch_up[0].isdigit() else ''}{catch_up}"),
            ("retention", retention_cell(self.verdict.loss_seconds, about["lost_messages"])),
            ("members", f"the group {members}; {owner}"),
        ]
        return [f"{name:<10} {output.one_line(said)}" for name, said in facts if said != "-"]

    def _rule_lines(self, width: int | None) -> list[str]:
        cells = [
            [
                _mark(line),
                str(line.spec.number),
                line.spec.question,
                line.answer if line.is_reached else f"({line.answer})",
            ]
            for line in self.rules
        ]
        head, *starts = output.table_lines(_RULES, cells)
        margin = max(len(start) for start in (head, *starts))
        lines = [output.heading(f"{head:<{margin}}  NUMBERS")]
        for start, line in zip(starts, self.rules, strict=True):
            text = _beside(start, line.numbers, margin, width)
            lines += [output.paint(part, "bright_white", bold=True) for part in text] if line.decides else text
        return [*lines, *self._other_rule()]

    def _other_rule(self) -> list[str]:
        """Why the verdict is not by the rule that decides now."""
        rule = self.verdict.about["rule"]
        deciding = next(line.spec.number for line in self.rules if line.decides)
        if rule is None or rule == deciding:
            return []
        decided = f"rule {rule} ({BY_NUMBER[rule].name}) decided"
        if self.verdict.about["stale"]:
            return [f"{decided} at the last successful poll: a stale partition keeps its verdict"]
        return [f"{decided} in the agent, which has other settings; to use them, add --config FILE"]


def _mark(line: RuleLine) -> str:
    return "=>" if line.decides else "." if line.is_reached else "-"


def _beside(start: str, text: str, margin: int, width: int | None) -> list[str]:
    """Text to the right of the start of a line; a terminal too narrow for it gets it wrapped, or below the line."""
    if width is None:
        return [f"{start:<{margin}}  {text}"]
    if width - margin < _LEAST_ROOM:
        return [start, *textwrap.wrap(text, width, initial_indent=" " * 8, subsequent_indent=" " * 8)]
    first, *rest = textwrap.wrap(text, width - margin - 2) or [""]
    return [f"{start:<{margin}}  {first}", *(f"{'':<{margin}}  {part}" for part in rest)]


def slots_of(evaluated: EvaluatedRows, row: int) -> list[Slot]:
    """The filled slots of a row, oldest first."""
    windows = evaluated.windows
    first = windows.slots - int(windows.kept[row])
    columns = (column[row, first:].tolist() for column in (windows.timestamp, windows.offset, windows.lag))
    rows = list(zip(*columns, strict=True))
    steps = [None, *(after[1] - before[1] for before, after in pairwise(rows))]
    empty = int(windows.width[row]) - len(rows)
    return [
        Slot(empty + number, at_ms, offset, step, None if lag < 0 else lag)
        for number, ((at_ms, offset, lag), step) in enumerate(zip(rows, steps, strict=False), 1)
    ]


def _ends(evaluated: EvaluatedRows, row: int) -> list[tuple[int, int]]:
    """Every known log end over the window: the kept ones, and before them those that lags were measured against."""
    windows = evaluated.windows
    end_row = int(windows.end_row[row])
    if end_row < 0:
        return []
    kept = int(windows.ends_kept[end_row])
    times = list(evaluated.store.end_times)[-kept:] if kept else []
    polled = list(zip(times, windows.ends[end_row, windows.slots - kept :].tolist()[-len(times) :], strict=True))
    began = times[0] if times else np.inf
    older = [(s.at_ms, s.offset + s.lag) for s in slots_of(evaluated, row) if s.lag is not None and s.at_ms < began]
    return sorted(older) + polled
