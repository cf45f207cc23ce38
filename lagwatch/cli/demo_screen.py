"""The demo on a screen and on a pipe: a picture of the journal enters, lines leave. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagwatch.cli import output
from lagwatch.cli.demo_watch import GroupLine, Picture
from lagwatch.cli.output import TableColumn, paint
from lagwatch.text import counted, duration_text, one_line

_BARS, _UNKNOWN = "▁▂▃▄▅▆▇█", "·"
_QUIET_LAG = 100  # lags below this are the noise of reading in batches, and are drawn small
_SHORT_STATES = {"PreparingRebalance": "Rebalancing", "CompletingRebalance": "Rebalancing"}
_LEGEND_WIDTH = 126  # a terminal narrower than this has no room for what each group does
_TREND = range(10, 37)
_MOST_EVENTS = 5


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's process. `back_in_seconds` is how long until it is started again."""

    id: int
    pid: int
    running: bool
    back_in_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """What is shown beside the journal's contents."""

    kafka_version: str
    brokers: Sequence[Broker]
    poll_every_seconds: float
    hints: Sequence[str]


def sparkline(lags: Sequence[int | None], width: int) -> str:
    """The last `width` lags as bars, newest at the right; a dot where the lag was not known."""
    shown = [None] * (width - len(lags)) + list(lags[-width:])
    top = max(_QUIET_LAG, *(lag or 0 for lag in shown))
    return "".join(_UNKNOWN if lag is None else _BARS[min(lag * len(_BARS) // top, len(_BARS) - 1)] for lag in shown)


def screen(picture: Picture | None, around: Around, width: int, height: int) -> list[str]:
    """The whole screen, at most `height` lines; what matters least gives way first."""
    head = _head(picture, around)
    if picture is None:
        return [*head, "", "waiting for the agent's first poll", "", *around.hints][:height]
    room = height - len(head) - len(around.hints) - 3  # two blank lines and the table's head
    table = _table(picture.groups, around, width, max(1, room))
    events = _events(picture, min(_MOST_EVENTS, room - len(picture.groups)))
    lines = [*head, "", *table, "", *events]
    apart = [""] if events and len(lines) + len(around.hints) < height else []
    return [*lines, *apart, *around.hints][:height]


def _head(picture: Picture | None, around: Around) -> list[str]:
    totals = picture.health.totals if picture else {}
    controller = totals.get("controller")
    brokers = ", ".join(_broker(broker, is_controller=broker.id == controller) for broker in around.brokers)
    first = f"{paint(f'Kafka {around.kafka_version}', 'white', bold=True)}  brokers: {brokers}"
    if picture is None:
        return [first]
    counts = [
        _count("under-replicated", totals.get("under_replicated_partitions")),
        _count("offline", totals.get("offline_partitions")),
    ]
    took = picture.poll_seconds
    polls = f"polled {duration_text(picture.age_seconds)} ago" + ("" if took is None else f" in {took:.2f}s")
    second = f"{totals.get('partitions', '?')} partitions: {', '.join(counts)}; {polls}"
    problems = picture.health.problems()
    return [first, second, *([paint(one_line(problems[0]), "red")] if problems else [])]


def _broker(broker: Broker, *, is_controller: bool) -> str:
    if broker.running:
        return f"{broker.id} pid {broker.pid}" + (" (controller)" if is_controller else "")
    back = "" if broker.back_in_seconds is None else f" (back in {broker.back_in_seconds:.0f}s)"
    return paint(f"{broker.id} DOWN{back}", "red", bold=True)


def _count(what: str, number: int | None) -> str:
    text = f"{what} {'?' if number is None else number}"
    return paint(text, "red") if number else text


def _table(groups: Sequence[GroupLine], around: Around, width: int, most: int) -> list[str]:
    with_legend = width >= _LEGEND_WIDTH
    columns = _columns(with_legend=with_legend, trend=" " * _TREND[0])
    cells = [_cells(group, _TREND[0], with_legend=with_legend) for group in groups]
    widest = max(map(len, output.table_lines(columns, cells)))
    trend = max(_TREND[0], min(_TREND[-1], _TREND[0] + width - widest))
    columns = _columns(with_legend=with_legend, trend=f"LAST {duration_text(trend * around.poll_every_seconds)}")
    shown = groups[:most] if len(groups) <= most else groups[: most - 1]
    cells = [_cells(group, trend, with_legend=with_legend) for group in shown]
    head, *lines = output.table_lines(columns, cells, width)
    painted = [_painted(line, group) for group, line in zip(shown, lines, strict=True)]
    return [output.heading(head), *painted, *output.more(len(groups) - len(shown), "group")]


def _painted(line: str, group: GroupLine) -> str:
    """Red for what should wake somebody, yellow for what should be looked at and for what is not known now."""
    if group.stale or group.status in {"WARN", "REWIND"}:
        return paint(line, "yellow")
    return paint(line, "red") if group.status in {"ERR", "STOP", "STALL"} else line


def _columns(*, with_legend: bool, trend: str) -> list[TableColumn]:
    """Wide enough from the start for numbers to grow without moving the columns."""
    return [
        TableColumn("GROUP", shrinks=True),
        *([TableColumn("WHAT IT DOES", shrinks=True)] if with_legend else []),
        TableColumn("STATUS"),
        TableColumn("STATE "),
        TableColumn("MEMBERS", right=True),
        TableColumn("   LAG", right=True),
        TableColumn(trend),
        TableColumn(" STILL", right=True),
        TableColumn("REBALANCES", right=True),
    ]


def _cells(group: GroupLine, trend: int, *, with_legend: bool) -> list[str]:
    return [
        group.name,
        *([group.what or "-"] if with_legend else []),
        group.status or "-",
        _SHORT_STATES.get(group.state, group.state),
        "?" if group.members is None else str(group.members),
        "?" if group.lag is None else f"{group.lag:,}",
        sparkline(group.lags, trend),
        "-" if group.still_seconds is None else duration_text(group.still_seconds),
        str(group.rebalances),
    ]


def _events(picture: Picture, most: int) -> list[str]:
    """The newest events, the newest first."""
    if most <= 0:
        return []
    newest = list(picture.events)[: -most - 1 : -1]
    now = picture.health.view.now_ms
    return [f"{duration_text(max(0, now - event.at_ms) // 1000):>6} ago  {one_line(event.why)}" for event in newest]


def plain_lines(picture: Picture | None, around: Around) -> list[str]:
    """For a pipe: a line for the cluster and one for each group."""
    down = [f"broker {broker.id} is down" for broker in around.brokers if not broker.running]
    if picture is None:
        return ["; ".join(["waiting for the agent's first poll", *down])]
    at = output.clock_time(picture.health.view.at_ms)
    totals = picture.health.totals
    problems = "; ".join([*down, *map(one_line, picture.health.problems())]) or "no problems"
    lines = [f"{at} {totals.get('brokers', '?')} brokers, {totals.get('partitions', '?')} partitions: {problems}"]
    widest = max((len(group.name) for group in picture.groups), default=0)
    for group in picture.groups:
        still = "" if group.still_seconds is None else f"  still {duration_text(group.still_seconds)}"
        members = "members ?" if group.members is None else counted(group.members, "member")
        lag = "?" if group.lag is None else f"{group.lag:,}"
        lines.append(
            f"{at} {group.name:<{widest}}  {group.status or '-':<6}  lag {lag:>6}  {group.state}, {members}, "
            f"{counted(group.rebalances, 'rebalance')}{still}{'  STALE' if group.stale else ''}"
        )
    return lines
