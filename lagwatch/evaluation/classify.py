"""Gathers the inputs of the rules from the windows and notes of a cluster, and applies the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lagwatch.columns import Names
from lagwatch.evaluation.policies import Policies
from lagwatch.evaluation.poll_rows import LagRows, Members
from lagwatch.evaluation.rewinds import LogStarts
from lagwatch.verdict.classify import Verdicts, classify_burrow, classify_lagwatch, verdicts_of
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Mode
from lagwatch.windows import WindowStore
from lagwatch.windows.insert import NO_RULE


def classify_rows(
    store: WindowStore, facts: Facts, policy: Policy, stale_rows: npt.NDArray[np.int32], now_ms: int
) -> tuple[Verdicts, npt.NDArray[np.bool_]]:
    """Evaluate every row of the store by the rules of its group.

    Stale rows keep their last verdict: time that passes without data is no evidence against a group. The second result
    marks the rows whose window would now give another verdict, since commits may still arrive from the offsets topic.
    """
    windows = store.windows()
    is_burrow = policy.mode == Mode.BURROW
    verdicts = classify_lagwatch(windows, facts, policy, now_ms) if not is_burrow.all() else None
    if verdicts is None or is_burrow.any():
        by_burrow = classify_burrow(windows, policy.as_burrow(), now_ms // 1000)
        verdicts = by_burrow if verdicts is None else _either(is_burrow, by_burrow, verdicts)
    last = store.note("rule")
    keeps = np.zeros(len(windows), dtype=bool)
    keeps[stale_rows] = True
    rule = np.where(keeps & (last != NO_RULE), last, verdicts.rule).astype(np.uint8)
    last[:] = rule
    return verdicts_of(windows, rule, verdicts.complete), rule != verdicts.rule


def _either(first: npt.NDArray[np.bool_], one: Verdicts, other: Verdicts) -> Verdicts:
    columns = (np.where(first, getattr(one, name), getattr(other, name)) for name in Verdicts.__slots__)
    return Verdicts(*columns)


def policy_of_rows(store: WindowStore, policies: Policies) -> Policy:
    """The policy of every row of the store."""
    numbers = _by_group(store.groups, policies.of_groups, np.uint8)
    return policies.columns(numbers[group_of_rows(store)])


def facts_of_rows(
    store: WindowStore,
    rows: LagRows,
    at: npt.NDArray[np.int32],
    members: Members,
    starts: LogStarts,
    now_ms: int,
) -> Facts:
    """The facts that polls provide for every row of the store.

    `at` is the store row of each row of the poll, -1 if it has none.
    """
    there = at >= 0

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        column = np.zeros(len(store.table), values.dtype)
        column[at[there]] = values[there]
        return column

    lost = store.note("lost").astype(np.int64)
    return Facts(
        since_moved_ms=spread(rows.since_moved_ms),
        gap_ms=store.note("gap").astype(np.int64) * 1000,
        unread_ms=spread(rows.unread_ms),
        messages_a_second=store.messages_a_second(),
        markers=np.maximum(store.note("learned_markers"), store.note("proved")).astype(np.int64),
        log_start=starts.of_rows(store),
        lost_ms=np.where(lost > 0, np.maximum(now_ms - lost * 1000, 0), -1),
        had_members=rows_of_groups(store, members.had),
        has_members=rows_of_groups(store, members.have),
        abandoned=store.note("abandoned"),
    )


def rows_of_groups(store: WindowStore, names: Collection[str]) -> npt.NDArray[np.bool_]:
    """Which rows of the store belong to these groups."""
    return _by_group(store.groups, lambda groups: [name in names for name in groups], np.bool_)[group_of_rows(store)]


def group_of_rows(store: WindowStore) -> npt.NDArray[np.int64]:
    """The group number of every row."""
    names = store.row_names()
    group = np.zeros(len(names.row), np.int64)
    group[names.row] = names.group
    return group


def _by_group(groups: Names, values_of: Any, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """A value for each group number; unused numbers have zero."""
    numbers = groups.all()
    column = np.zeros(int(numbers.max(initial=-1)) + 1, dtype)
    names: Iterable[str] = [groups.name(number) for number in numbers.tolist()]
    column[numbers] = values_of(names)
    return column
