"""Turns bean values into fields: rates, means, sums. Pure, given the previous poll's counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.jmx_beans.beans import (
    BROKER_ROLE_BEAN,
    CONTROLLER_ROLE_BEAN,
    IDLE_COMBINED,
    IDLE_OF_BROKER,
    IDLE_OF_CONTROLLER,
    IDLE_RATE,
    START_TIME,
    Aggregation,
    Bean,
    Role,
)
from collectors.jmx_beans.connection_interface import BeanAttributes, BeanQuery
from collectors.jmx_beans.parsing import as_number, attribute_value, attributes_to_read, is_pattern, key_properties

Key = tuple[str, tuple[tuple[str, str], ...]]  # a table, and the tags of one of its rows except the node
Row = dict[str, Any]

ROLE_BEANS = (BROKER_ROLE_BEAN, CONTROLLER_ROLE_BEAN)
_SENTINEL_ERROR = "NONE"  # Kafka counts responses without an error as errors of this name


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The queries for one node, and the lines of the table that use the answers."""

    queries: tuple[BeanQuery, ...]
    lines: tuple[tuple[Bean, str, tuple[tuple[str, str], ...]], ...]
    excluded: frozenset[str] = frozenset()  # existing beans that are not queried: above the limit


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a node at one poll, from which the next poll computes rates."""

    at: float = 0.0
    started: int | None = None
    counts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()  # beans that existed without a value: their counters did not start at zero


def patterns_in(beans: Iterable[Bean]) -> tuple[str, ...]:
    """The name patterns in the table, and the beans that determine a node's roles."""
    return (*ROLE_BEANS, *dict.fromkeys(bean.bean for bean in beans if is_pattern(bean.bean)))


def roles_in(names: Mapping[str, Sequence[str]]) -> frozenset[Role]:
    """A node's roles, from the beans it has."""
    role_beans = ((BROKER_ROLE_BEAN, Role.BROKER), (CONTROLLER_ROLE_BEAN, Role.CONTROLLER))
    return frozenset({Role.ANY, *(role for bean, role in role_beans if names.get(bean))})


def plan_queries(beans: Sequence[Bean], names: Mapping[str, Sequence[str]], max_beans: int) -> QueryPlan:
    """Plan the queries for a node with these beans; at most `max_beans` for one pattern."""
    roles = roles_in(names)
    lines = []
    excluded: set[str] = set()
    for bean in beans:
        if bean.role not in roles:
            continue
        excluded.update(names.get(bean.bean, ())[max_beans:] if is_pattern(bean.bean) else ())
        found = names.get(bean.bean, ())[:max_beans] if is_pattern(bean.bean) else (bean.bean,)
        lines += [(bean, name, labels) for name in found if (labels := _labels(bean, name)) is not None]
    attributes: dict[str, dict[str, None]] = {}
    for bean, name, _ in lines:
        attributes.setdefault(name, {}).update(dict.fromkeys(_attributes(bean)))
    queries = tuple(BeanQuery(name, tuple(wanted)) for name, wanted in attributes.items())
    return QueryPlan(queries, tuple(lines), frozenset(excluded))


def _labels(bean: Bean, name: str) -> tuple[tuple[str, str], ...] | None:
    """The tags of a bean's row; None if the bean is filtered out."""
    properties = key_properties(name)
    if properties.get("error") == _SENTINEL_ERROR:
        return None
    labels = tuple((tag, properties.get(key, "")) for tag, key in bean.labels)
    return None if bean.only and labels[0][1] not in bean.only else labels


def _attributes(bean: Bean) -> tuple[str, ...]:
    return (bean.attribute, "Count") if bean.how is Aggregation.MEAN else attributes_to_read(bean.attribute)


def evaluate(
    plan: QueryPlan, answers: Sequence[BeanAttributes], roles: frozenset[Role], before: Counters, at: float
) -> tuple[dict[Key, Row], Counters]:
    """The fields of a node by row, and its counters for the next poll.

    A counter that did not exist in the previous poll started at zero. A counter that decreased, or another start time,
    means a restart: there is no rate until the next poll.
    """
    answers_by_bean = {query.bean: answer for query, answer in zip(plan.queries, answers, strict=True)}
    counts: dict[tuple[str, str], float] = {}
    raw: dict[tuple[Key, str], list[tuple[Bean, str, Any]]] = {}
    for bean, name, labels in plan.lines:
        value = _valid_value(bean, attribute_value(answers_by_bean[name], bean.attribute))
        if value is None:
            continue
        if bean.how is Aggregation.MEAN:
            count = as_number(attribute_value(answers_by_bean[name], "Count"))
            if count is None or isinstance(value, str):
                continue
            counts[name, "Count"] = count
            value *= count
        if bean.how in (Aggregation.MEAN, Aggregation.RATE):
            counts[name, bean.attribute] = value
        if bean.field:
            raw.setdefault(((bean.table, labels), bean.field), []).append((bean, name, value))
    started = as_number(attribute_value(answers_by_bean.get("java.lang:type=Runtime"), "StartTime"))
    silent = {name for _, name, _ in plan.lines} - {name for name, _ in counts}
    after = Counters(at, None if started is None else int(started), counts, plan.excluded | silent)
    previous = before if before.started == after.started else Counters()
    rows: dict[Key, Row] = {}
    for (key, name_of_field), values in raw.items():
        value = _combined(values, previous, after)
        if value is not None:
            rows.setdefault(key, {})[name_of_field] = value
    node = rows.setdefault(("broker", ()), {})
    node |= _derived_fields(answers_by_bean, roles, node)
    return rows, after


def _valid_value(bean: Bean, value: Any) -> Any:
    if isinstance(value, str):
        return value if bean.how is Aggregation.VALUE else None
    number = as_number(value)
    return None if number is None or number in bean.absent else number


def _combined(values: Sequence[tuple[Bean, str, Any]], before: Counters, now: Counters) -> Any:
    bean = values[0][0]
    if bean.how is Aggregation.VALUE:
        texts = [value for _, _, value in values if isinstance(value, str)]
        return texts[0] if texts else _scaled(bean, max(value for _, _, value in values))
    if bean.how is Aggregation.SUM:
        return _scaled(bean, sum(value for _, _, value in values))
    growths = [_growth((name, bean.attribute), before, now) for bean, name, _ in values]
    if not before.at or any(growth is None for growth in growths):
        return None
    total = sum(growth for growth in growths if growth is not None)
    if bean.how is Aggregation.RATE:
        return total * bean.scale / (now.at - before.at) if now.at > before.at else None
    new_counts = [_growth((name, "Count"), before, now) or 0 for _, name, _ in values]
    # Rounded, because Mean times Count has a rounding error.
    return round(total / sum(new_counts), 6) if sum(new_counts) > 0 else None


def _growth(counter: tuple[str, str], before: Counters, now: Counters) -> float | None:
    """The increase of a counter; None if it decreased, or existed before without a value."""
    if counter not in before.counts and counter[0] in before.unread:
        return None
    growth = now.counts[counter] - before.counts.get(counter, 0)
    # Mean times Count has a rounding error: an unchanged counter may look slightly smaller.
    return max(growth, 0.0) if growth > -1e-6 * max(1.0, abs(now.counts[counter])) else None


def _scaled(bean: Bean, value: float) -> float:
    return value if bean.scale == 1 else value * bean.scale


def _derived_fields(answers_by_bean: Mapping[str, BeanAttributes], roles: frozenset[Role], node: Row) -> Row:
    names = [role.value for role in (Role.BROKER, Role.CONTROLLER) if role in roles]
    fields: Row = {"roles": ",".join(names) or None, "request_handler_idle": handler_idle(answers_by_bean, roles)}
    if node.get("gc_rate"):
        fields["gc_mean_ms"] = 1000 * node.get("gc_share", 0.0) / node["gc_rate"]
    return {name: value for name, value in fields.items() if value is not None}


def handler_idle(answers_by_bean: Mapping[str, BeanAttributes], roles: frozenset[Role]) -> float | None:
    """The share of time request handlers are idle, from 0 to 1 on every version.

    Newer versions have separate beans for broker and controller, from the release on that no longer adds them up. Before
    it, a combined node reports the sum of two pools. The controller's pool is idle (measured: 0.98 while the broker's was
    at 0.11), so the sum minus one is the broker's; half of the sum would never fall below 0.5. A meter is exactly zero
    only in the first seconds of a JVM.
    """
    own = IDLE_OF_BROKER if Role.BROKER in roles else IDLE_OF_CONTROLLER
    exact = as_number(attribute_value(answers_by_bean.get(own), IDLE_RATE))
    if exact is not None:
        return min(float(exact), 1.0) or None
    average = as_number(attribute_value(answers_by_bean.get(IDLE_COMBINED), IDLE_RATE))
    if not average:
        return None
    two_pools = {Role.BROKER, Role.CONTROLLER} <= roles
    return min(max(float(average) - two_pools, 0.0), 1.0)


def jvm_start_ms(rows: Mapping[Key, Row]) -> int | None:
    """The start time of the node's JVM."""
    return rows.get(("broker", ()), {}).get(START_TIME)
