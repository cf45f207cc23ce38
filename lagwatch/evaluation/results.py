"""What the judge says of one poll."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagwatch.batch import Column
from lagwatch.evaluation.rewinds import Rewound
from lagwatch.verdict.status import Status


@dataclass(frozen=True, slots=True)
class GroupEvaluation:
    """What is said of one group, and why."""

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
    """Columns for `consumer_lag`, in the order of its rows, a judgement for each group, and what was noticed besides."""

    lag_columns: Mapping[str, Column]
    groups: Mapping[str, GroupEvaluation]
    rewound: Sequence[Rewound] = ()
