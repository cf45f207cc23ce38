"""The results of evaluating one poll."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lagwatch.batch import Column
from lagwatch.evaluation.rewinds import Rewind
from lagwatch.verdict.status import Status


@dataclass(frozen=True, slots=True)
class GroupEvaluation:
    """The verdict on one group, and why."""

    status: Status
    why: str
    complete: float
    not_ok: int
    abandoned: int
    consume_rate: float
    produce_rate: float
    catch_up_seconds: float | None  # None: never at these rates
    loss_seconds: float | None  # None: not at these rates


@dataclass(frozen=True, slots=True)
class PollEvaluation:
    """The verdicts of one run: columns for `consumer_lag` in the order of its rows, and the verdict on each group.

    `groups` is None for a run that did not poll groups. `rewinds` are the committed offsets that went back.
    """

    lag_columns: Mapping[str, Column] = field(default_factory=dict)
    groups: Mapping[str, GroupEvaluation] | None = None
    rewinds: Sequence[Rewind] = ()
