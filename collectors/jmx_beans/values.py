"""What a node's beans told becomes fields: rates, means, sums and corrected values. Pure but for the poll before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.jmx_beans.beans import (
    BROKER_SIGN,
    CONTROLLER_SIGN,
    IDLE_OF_ALL,
    IDLE_OF_BROKER,
    IDLE_OF_CONTROLLER,
    IDLE_RATE,
    STARTED,
    Bean,
    How,
    Role,
)
from collectors.jmx_client.parsing import (
    BeanAnswer,
    BeanQuery,
    is_pattern,
    names_to_ask,
    number_in,
    pick,
    properties_of,
)

Key = tuple[str, tuple[tuple[str, str], ...]]  # a table, and the tags of one of its rows but for the node
Row = dict[str, Any]

SIGNS = (BROKER_SIGN, CONTROLLER_SIGN)
_SENTINEL_ERROR = "NONE"  # Kafka counts answers without an error as errors of this name


@dataclass(frozen=True, slots=True)
class Plan:
    """What to ask of one node, and which line of the table each answer is for."""

    questions: tuple[BeanQuery, ...]
    lines: tuple[tuple[Bean, str, tuple[tuple[str, str], ...]], ...]
    left_out: frozenset[str] = frozenset()  # beans that are there and are not asked: there are too many


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a node at one poll, from which the next one makes rates."""

    at: float = 0.0
    started: int | None = None
    counts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()  # beans that were there and told nothing: they do not begin at zero


def patterns_in(beans: Iterable[Bean]) -> tuple[str, ...]:
    """The names in the table that stand for several beans, and those that tell a node's roles."""
    return (*SIGNS, *dict.fromkeys(bean.bean for bean in beans if is_pattern(bean.bean)))


def roles_in(names: Mapping[str, Sequence[str]]) -> frozenset[Role]:
    """The roles a node plays, by the beans it has."""
    signs = ((BROKER_SIGN, Role.BROKER), (CONTROLLER_SIGN, Role.CONTROLLER))
    return frozenset({Role.ANY, *(role for sign, role in signs if names.get(sign))})


def make_plan(beans: Sequence[Bean], names: Mapping[str, Sequence[str]], most: int) -> Plan:
    """The questions for a node with these beans; at most so many for one pattern."""
    roles = roles_in(names)
    lines = []
    left_out: set[str] = set()
    for bean in beans:
        if bean.role not in roles:
            continue
        left_out.update(names.get(bean.bean, ())[most:] if is_pattern(bean.bean) else ())
        found = names.get(bean.bean, ())[:most] if is_pattern(bean.bean) else (bean.bean,)
        lines += [(bean, name, labels) for name in found if (labels := _labels(bean, name)) is not None]
    attributes: dict[str, dict[str, None]] = {}
    for bean, name, _ in lines:
        attributes.setdefault(name, {}).update(dict.fromkeys(_attributes(bean)))
    questions = tuple(BeanQuery(name, tuple(asked)) for name, asked in attributes.items())
    return Plan(questions, tuple(lines), frozenset(left_out))


def _labels(bean: Bean, name: str) -> tuple[tuple[str, str], ...] | None:
    """The tags of a bean's row; None when it is not wanted."""
    properties = properties_of(name)
    if properties.get("error") == _SENTINEL_ERROR:
        return None
    labels = tuple((tag, properties.get(key, "")) for tag, key in bean.labels)
    return None if bean.only and labels[0][1] not in bean.only else labels


def _attributes(bean: Bean) -> tuple[str, ...]:
    return (bean.attribute, "Count") if bean.how is How.MEAN else names_to_ask(bean.attribute)


def evaluate(
    plan: Plan, answers: Sequence[BeanAnswer], roles: frozenset[Role], before: Counters, at: float
) -> tuple[dict[Key, Row], Counters]:
    """The fields of a node by row, and its counters for the next time.

    A counter that was not there in the poll before began at zero since. One that went down, or another start time, is a
    restart: there is no rate until the next poll.
    """
    told = {question.bean: answer for question, answer in zip(plan.questions, answers, strict=True)}
    counts: dict[tuple[str, str], float] = {}
    raw: dict[tuple[Key, str], list[tuple[Bean, str, Any]]] = {}
    for bean, name, labels in plan.lines:
        value = _known(bean, pick(told[name], bean.attribute))
        if value is None:
            continue
        if bean.how is How.MEAN:
            count = number_in(pick(told[name], "Count"))
            if count is None or isinstance(value, str):
                continue
            counts[name, "Count"] = count
            value *= count
        if bean.how in (How.MEAN, How.RATE):
            counts[name, bean.attribute] = value
        if bean.field:
            raw.setdefault(((bean.table, labels), bean.field), []).append((bean, name, value))
    started = number_in(pick(told.get("java.lang:type=Runtime"), "StartTime"))
    silent = {name for _, name, _ in plan.lines} - {name for name, _ in counts}
    after = Counters(at, None if started is None else int(started), counts, plan.left_out | silent)
    again = before if before.started == after.started else Counters()
    rows: dict[Key, Row] = {}
    for (key, name_of_field), values in raw.items():
        value = _combined(values, again, after)
        if value is not None:
            rows.setdefault(key, {})[name_of_field] = value
    node = rows.setdefault(("broker", ()), {})
    node |= _corrected(told, roles, node)
    return rows, after


def _known(bean: Bean, value: Any) -> Any:
    if isinstance(value, str):
        return value if bean.how is How.VALUE else None
    number = number_in(value)
    return None if number is None or number in bean.absent else number


def _combined(values: Sequence[tuple[Bean, str, Any]], before: Counters, now: Counters) -> Any:
    bean = values[0][0]
    if bean.how is How.VALUE:
        texts = [value for _, _, value in values if isinstance(value, str)]
        return texts[0] if texts else _scaled(bean, max(value for _, _, value in values))
    if bean.how is How.SUM:
        return _scaled(bean, sum(value for _, _, value in values))
    grown = [_growth((name, bean.attribute), before, now) for bean, name, _ in values]
    if not before.at or any(growth is None for growth in grown):
        return None
    total = sum(growth for growth in grown if growth is not None)
    if bean.how is How.RATE:
        return total * bean.scale / (now.at - before.at) if now.at > before.at else None
    more = [_growth((name, "Count"), before, now) or 0 for _, name, _ in values]
    return round(total / sum(more), 6) if sum(more) > 0 else None  # rounded: Mean times Count is not quite whole


def _growth(counter: tuple[str, str], before: Counters, now: Counters) -> float | None:
    """How much a counter grew; None when it went down, or was there before and not read."""
    if counter not in before.counts and counter[0] in before.unread:
        return None
    growth = now.counts[counter] - before.counts.get(counter, 0)
    # Mean times Count is exact but for rounding: nothing new may look like a little less.
    return max(growth, 0.0) if growth > -1e-6 * max(1.0, abs(now.counts[counter])) else None


def _scaled(bean: Bean, value: float) -> float:
    return value if bean.scale == 1 else value * bean.scale


def _corrected(told: Mapping[str, BeanAnswer], roles: frozenset[Role], node: Row) -> Row:
    names = [role.value for role in (Role.BROKER, Role.CONTROLLER) if role in roles]
    fields: Row = {"roles": ",".join(names) or None, "request_handler_idle": handler_idle(told, roles)}
    if node.get("gc_rate"):
        fields["gc_mean_ms"] = 1000 * node.get("gc_share", 0.0) / node["gc_rate"]
    return {name: value for name, value in fields.items() if value is not None}


def handler_idle(told: Mapping[str, BeanAnswer], roles: frozenset[Role]) -> float | None:
    """The share of time request handlers are idle, from 0 to 1 on every version.

    New versions tell it for broker and controller apart, from the same release on that no longer adds them up. Before,
    a node that is both told the sum of two pools. The controller's is idle (measured: 0.98 while the broker's was at
    0.11), so what is above one is the broker's; half of the sum would never fall below a half. Exactly zero is what a
    meter shows in the first seconds of a JVM, and never later.
    """
    own = IDLE_OF_BROKER if Role.BROKER in roles else IDLE_OF_CONTROLLER
    exact = number_in(pick(told.get(own), IDLE_RATE))
    if exact is not None:
        return min(float(exact), 1.0) or None
    average = number_in(pick(told.get(IDLE_OF_ALL), IDLE_RATE))
    if not average:
        return None
    two_pools = {Role.BROKER, Role.CONTROLLER} <= roles
    return min(max(float(average) - two_pools, 0.0), 1.0)


def as_started(rows: Mapping[Key, Row]) -> int | None:
    """When the node's JVM started."""
    return rows.get(("broker", ()), {}).get(STARTED)
