"""Formats the state of the demo for a screen and for a pipe. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagwatch.cli import output
from lagwatch.cli.demo_state import DemoState, GroupLine
from lagwatch.cli.output import TableColumn, paint
from lagwatch.cli.status_cells import status_colour
from lagwatch.kafka_names import REBALANCING
from lagwatch.text import counted, duration_text, one_line

_BARS, _UNKNOWN = "▁▂▃▄▅▆▇█", "·"
_QUIET_LAG = 100  # lags below this are noise of reading in batches, and are drawn small
_DESCRIPTIONS_WIDTH = 126  # a narrower terminal has no room for the descriptions of groups
_TREND = range(10, 37)
_MOST_EVENTS = 5


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's process. `back_in_seconds` is the time until its restart."""

    id: int
    pid: int
    running: bool
    back_in_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ScreenContext:
    """What the screen shows in addition to the journal's contents."""

    kafka_version: str
    brokers: Sequence[Broker]
    poll_every_seconds: float
    hints: Sequence[str]


def sparkline(lags: Sequence[int | None], width: int) -> str:
    """The last `width` lags as bars, newest on the right; a dot for an unknown lag."""
    shown = [None] * (width - len(lags)) + list(lags[-width:])
    top = max(_QUIET_LAG, *(lag or 0 for lag in shown))
    return "".join(_UNKNOWN if lag is None else _BARS[min(lag * len(_BARS) // top, len(_BARS) - 1)] for lag in shown)


def screen(state: DemoState | None, context: ScreenContext, width: int, height: int) -> list[str]:
    """The whole screen, at most `height` lines; the least important lines are dropped first."""
    head = _head(state, context)
    if state is None:
        return [*head, "", "waiting for the agent's first poll", "", *context.hints][:height]
    room = height - len(head) - len(context.hints) - 3  # two blank lines and the table's head
    table = _table(state.groups, context, width, max(1, room))
    events = _events(state, min(_MOST_EVENTS, room - len(state.groups)))
    lines = [*head, "", *table, "", *events]
    apart = [""] if events and len(lines) + len(context.hints) < height else []
    return [*lines, *apart, *context.hints][:height]


def _head(state: DemoState | None, context: ScreenContext) -> list[str]:
    totals = state.health.totals if state else {}
    controller = totals.get("controller")
    brokers = ", ".join(_broker(broker, is_controller=broker.id == controller) for broker in context.brokers)
    first = f"{paint(f'Kafka {context.kafka_version}', 'white', bold=True)}  brokers: {brokers}"
    if state is None:
        return [first]
    counts = [
        _count("under-replicated", totals.get("under_replicated_partitions")),
        _count("offline", totals.get("offline_partitions")),
    ]
    took = state.poll_seconds
    polls = f"polled {duration_text(state.age_seconds)} ago" + ("" if took is None else f" in {took:.2f}s")
    second = f"{totals.get('partitions', '?')} partitions: {', '.join(counts)}; {polls}"
    problems = state.health.problems()
    return [first, second, *([paint(one_line(problems[0]), "red")] if problems else [])]


def _broker(broker: Broker, *, is_controller: bool) -> str:
    if broker.running:
        return f"{broker.id} pid {broker.pid}" + (" (controller)" if is_controller else "")
    back = "" if broker.back_in_seconds is None else f" (back in {broker.back_in_seconds:.0f}s)"
    return paint(f"{broker.id} DOWN{back}", "red", bold=True)


def _count(what: str, number: int | None) -> str:
    text = f"{what} {'?' if number is None else number}"
    return paint(text, "red") if number else text


def _table(groups: Sequence[GroupLine], context: ScreenContext, width: int, most: int) -> list[str]:
    with_descriptions = width >= _DESCRIPTIONS_WIDTH
    columns = _columns(with_descriptions=with_descriptions, trend=" " * _TREND[0])
    cells = [_cells(group, _TREND[0], with_descriptions=with_descriptions) for group in groups]
    widest = max(map(len, output.table_lines(columns, cells)))
    trend = max(_TREND[0], min(_TREND[-1], _TREND[0] + width - widest))
    columns = _columns(
        with_descriptions=with_descriptions, trend=f"LAST {duration_text(trend * context.poll_every_seconds)}"
    )
    shown = groups[:most] if len(groups) <= most else groups[: most - 1]
    cells = [_cells(group, trend, with_descriptions=with_descriptions) for group in shown]
    head, *lines = output.table_lines(columns, cells, width)
    painted = [_painted(line, group) for group, line in zip(shown, lines, strict=True)]
    return [output.heading(head), *painted, *output.more(len(groups) - len(shown), "group")]


def _painted(line: str, group: GroupLine) -> str:
    colour = status_colour(group.status, stale=group.stale)
    return paint(line, colour) if colour else line


def _columns(*, with_descriptions: bool, trend: str) -> list[TableColumn]:
    """Columns wide enough that growing numbers do not move them."""
    return [
        TableColumn("GROUP", shrinks=True),
        *([TableColumn("WHAT IT DOES", shrinks=True)] if with_descriptions else []),
        TableColumn("STATUS"),
        TableColumn("STATE "),
        TableColumn("MEMBERS", right=True),
        TableColumn("   LAG", right=True),
        TableColumn(trend),
        TableColumn("UNMOVED", right=True),
        TableColumn("REBALANCES", right=True),
    ]


def _cells(group: GroupLine, trend: int, *, with_descriptions: bool) -> list[str]:
    return [
        group.name,
        *([group.what or "-"] if with_descriptions else []),
        group.status or "-",
        "Rebalancing" if group.state in REBALANCING else group.state,
        "?" if group.members is None else str(group.members),
        "?" if group.lag is None else f"{group.lag:,}",
        sparkline(group.lags, trend),
        "-" if group.still_seconds is None else duration_text(group.still_seconds),
        str(group.rebalances),
    ]


def _events(state: DemoState, most: int) -> list[str]:
    """The newest events, the newest first."""
    if most <= 0:
        return []
    newest = list(state.events)[: -most - 1 : -1]
    now = state.health.view.now_ms
    return [f"{duration_text(max(0, now - event.at_ms) // 1000):>6} ago  {one_line(event.why)}" for event in newest]


def plain_lines(state: DemoState | None, context: ScreenContext) -> list[str]:
    """For a pipe: a line for the cluster and one for each group."""
    down = [f"broker {broker.id} is down" for broker in context.brokers if not broker.running]
    if state is None:
        return ["; ".join(["waiting for the agent's first poll", *down])]
    at = output.clock_time(state.health.view.at_ms)
    totals = state.health.totals
    problems = "; ".join([*down, *map(one_line, state.health.problems())]) or "no problems"
    lines = [f"{at} {totals.get('brokers', '?')} brokers, {totals.get('partitions', '?')} partitions: {problems}"]
    widest = max((len(group.name) for group in state.groups), default=0)
    for group in state.groups:
        unmoved = "" if group.still_seconds is None else f"  unmoved for {duration_text(group.still_seconds)}"
        members = "members ?" if group.members is None else counted(group.members, "member")
        lag = "?" if group.lag is None else f"{group.lag:,}"
        lines.append(
            f"{at} {group.name:<{widest}}  {group.status or '-':<6}  lag {lag:>6}  {group.state}, {members}, "
            f"{counted(group.rebalances, 'rebalance')}{unmoved}{'  STALE' if group.stale else ''}"
        )
    return lines
