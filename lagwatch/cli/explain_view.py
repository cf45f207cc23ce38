"""Formats the explanation of one partition: its window, a plot, the facts and the rules. Pure."""

from __future__ import annotations

import textwrap

from lagwatch.cli import output
from lagwatch.cli.explain_plot import PlotCharacters, plot
from lagwatch.cli.output import TableColumn
from lagwatch.cli.status_cells import catch_up_cell, retention_cell, status_colour, time_lag_cell
from lagwatch.snapshot.explain import ExplainedPartition, RuleLine
from lagwatch.text import duration_text, one_line
from lagwatch.verdict.rules import BY_NUMBER
from lagwatch.verdict.why import with_status

_SLOTS = (
    TableColumn("SLOT", right=True), TableColumn("WHEN"), TableColumn("AGO", right=True), TableColumn("OFFSET", right=True),
    TableColumn("STEP", right=True), TableColumn("LAG", right=True),
)  # fmt: skip
_RULES = (TableColumn(""), TableColumn("RULE", right=True), TableColumn("QUESTION"), TableColumn("HOLDS"))
_LEAST_ROOM = 40
_SOURCES = {0: "nothing is unread", 1: "from recorded log ends", 2: "from a timestamp query"}


def explained_lines(explained: ExplainedPartition, characters: PlotCharacters, width: int | None) -> list[str]:
    """The text for the terminal."""
    colour = status_colour(explained.verdict.status)
    why = with_status(explained.verdict.status or "-", explained.verdict.why or "")
    title = one_line(f"{explained.name}  {why}")
    parts = [
        _window_lines(explained),
        plot([(slot.at_ms, slot.offset) for slot in explained.slots], explained.ends, explained.now_ms, characters),
        _fact_lines(explained),
        _rule_lines(explained, width),
    ]
    lines = [output.paint(title, colour or "bright_white", bold=True)]
    for part in parts:
        lines += ["", *part] if part else []
    return lines


def _window_lines(explained: ExplainedPartition) -> list[str]:
    if not explained.slots:
        return []
    cells = [
        [
            str(slot.number),
            output.clock_time(slot.at_ms)[11:],
            duration_text(max(explained.now_ms - slot.at_ms, 0) / 1000),
            str(slot.offset),
            "-" if slot.step is None else f"{slot.step:+d}" if slot.step else "0",
            "?" if slot.lag is None else str(slot.lag),
        ]
        for slot in explained.slots
    ]
    head, *lines = output.table_lines(_SLOTS, cells)
    return [output.heading(head), *lines]


def _fact_lines(explained: ExplainedPartition) -> list[str]:
    inputs, about = explained.inputs, explained.verdict.about
    offset = about["committed_offset"]
    end = inputs.window.ends[-1] if inputs.window.ends else None
    start = "unknown" if inputs.log_start < 0 else inputs.log_start
    gap = (
        f"longest recent gap between moves {duration_text(inputs.gap)}"
        if inputs.gap
        else "fewer than two moves observed"
    )
    source = f", {_SOURCES[about['lag_source']]}" if about["lag_source"] in _SOURCES else ""
    catch_up = catch_up_cell(about["lag"], explained.verdict.catch_up_seconds, is_known=True)
    reads = f"reads {explained.verdict.consume_rate or 0:.3g}/s, {explained.verdict.produce_rate or 0:.3g}/s arrive"
    owner = (
        "not assigned"
        if explained.owner is None
        else f"assigned to {explained.owner.client_id} ({explained.owner.host})"
    )
    members = "has members" if inputs.has_members else "had members" if inputs.had_members else "never had members"
    facts = [
        ("offsets", f"committed {offset}, log end {end}, log start {start}"),
        ("lag", f"{about['lag']} messages" + (f"; {inputs.markers} may be markers" if inputs.markers else "")),
        ("time lag", time_lag_cell(about, "lag_seconds") + source),
        (
            "moves",
            f"last moved {duration_text(inputs.still)} ago; {gap}; patience {duration_text(inputs.patience)}",
        ),
        ("rates", f"{reads}; {'catches up in ' if catch_up[0].isdigit() else ''}{catch_up}"),
        ("retention", retention_cell(explained.verdict.loss_seconds, about["lost_messages"])),
        ("members", f"the group {members}; {owner}"),
    ]
    return [f"{name:<10} {one_line(text)}" for name, text in facts if text != "-"]


def _rule_lines(explained: ExplainedPartition, width: int | None) -> list[str]:
    cells = [
        [
            _mark(line),
            str(line.spec.number),
            line.spec.question,
            line.answer if line.is_reached else f"({line.answer})",
        ]
        for line in explained.rules
    ]
    head, *starts = output.table_lines(_RULES, cells)
    margin = max(len(start) for start in (head, *starts))
    lines = [output.heading(f"{head:<{margin}}  NUMBERS")]
    for start, line in zip(starts, explained.rules, strict=True):
        text = _beside(start, line.numbers, margin, width)
        lines += [output.paint(part, "bright_white", bold=True) for part in text] if line.decides else text
    return [*lines, *_other_rule(explained)]


def _other_rule(explained: ExplainedPartition) -> list[str]:
    """Why the verdict is not by the rule that decides now."""
    rule = explained.verdict.about["rule"]
    deciding = next(line.spec.number for line in explained.rules if line.decides)
    if rule is None or rule == deciding:
        return []
    decided = f"rule {rule} ({BY_NUMBER[rule].name}) decided"
    if explained.verdict.about["stale"]:
        return [f"{decided} at the last successful poll: a stale partition keeps its verdict"]
    return [f"{decided} in the agent, which has other settings; to use them, add --config FILE"]


def _mark(line: RuleLine) -> str:
    return "=>" if line.decides else "." if line.is_reached else "-"


def _beside(start: str, text: str, margin: int, width: int | None) -> list[str]:
    """Text to the right of the start of a line; a terminal too narrow for it gets it wrapped, or below the line."""
    if width is None:
        return [f"{start:<{margin}}  {text}".rstrip()]
    if width - margin < _LEAST_ROOM:
        return [start, *textwrap.wrap(text, width, initial_indent=" " * 8, subsequent_indent=" " * 8)]
    first, *rest = textwrap.wrap(text, width - margin - 2) or [""]
    return [f"{start:<{margin}}  {first}".rstrip(), *(f"{'':<{margin}}  {part}" for part in rest)]
