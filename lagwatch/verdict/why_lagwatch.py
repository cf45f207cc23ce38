"""Why a verdict of lagwatch's own rules is what it is, in one sentence; what it shares with Burrow is said by `why.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lagwatch.text import duration_text
from lagwatch.verdict.burrow_rules import Verdicts
from lagwatch.verdict.facts import Facts
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Status, VerdictRule
from lagwatch.verdict.why import WindowSummary, summarize_window, unread, why_partition
from lagwatch.windows.view import Windows


@dataclass(frozen=True, slots=True)
class _Row:
    """What a sentence is made of."""

    seen: WindowSummary
    still: str
    gap_seconds: float
    start: int
    messages_a_second: float

    @property
    def rhythm(self) -> str:
        gap = duration_text(self.gap_seconds)
        return f"its longest gap between moves was {gap}" if self.gap_seconds else "it was never seen to move twice"

    @property
    def loss(self) -> str:
        offset = self.seen.offsets[-1]
        lost = f"{self.start - offset} messages were deleted unread"
        return f"{lost}: its offset {offset} is below the log start {self.start}"


def why_by_lagwatch(
    windows: Windows, verdicts: Verdicts, facts: Facts, policy: Policy, row: int, now_ms: int
) -> str:  # fmt: skip
    """The sentence for one row, beginning with its status."""
    reason_of = _REASONS.get(VerdictRule(verdicts.rule[row]))
    if reason_of is None:
        return why_partition(windows, verdicts, policy, row, now_ms // 1000)
    about = _Row(
        summarize_window(windows, row),
        duration_text(int(facts.still_ms[row]) / 1000),
        int(facts.gap_ms[row]) / 1000,
        int(facts.log_start[row]),
        float(facts.messages_a_second[row]),
    )
    return f"{Status(verdicts.status[row]).name}: {reason_of(about)}"


def _rewind(row: _Row) -> str:
    best = max(row.seen.offsets)
    lowest = min(row.seen.offsets[row.seen.offsets.index(best) :])
    where = ", the log start," if lowest <= row.start else ""
    back = f"{best - lowest} messages back, from offset {best} to {lowest}{where}"
    return f"went {back} and has not reached {best} since; {unread(row.seen)}"


def _falling_behind(row: _Row) -> str:
    lags = row.seen.lags
    growth = f"its lag grew from {lags[0]} to {lags[-1]} over {row.seen.commits}"
    return f"moves, but {growth}, while {row.messages_a_second:.3g} messages arrive a second; {unread(row.seen)}"


_REASONS: Mapping[VerdictRule, Callable[[_Row], str]] = {
    VerdictRule.ABANDONED: lambda _: "not judged: the group is alive, but none of its members is assigned this topic",
    VerdictRule.LOST: lambda row: row.loss,
    VerdictRule.LOST_AND_GONE: lambda row: f"{row.loss}, and it has not moved for {row.still}",
    VerdictRule.ONLY_MARKERS: lambda row: (
        f"nothing is left of its lag of {row.seen.lag} but what transactions leave behind: markers, not messages"
    ),
    VerdictRule.MEMBERS_GONE: lambda row: (
        f"all its members are gone; it has stood still for {row.still}, and {row.rhythm}, while {unread(row.seen)}"
    ),
    VerdictRule.REWOUND: _rewind,
    VerdictRule.HAD_NO_LAG: lambda row: (
        f"had a lag of {min(row.seen.lags)} at one of {row.seen.commits}; {unread(row.seen)} now"
    ),
    VerdictRule.STALLED: lambda row: (
        f"at offset {row.seen.offsets[-1]} for {row.still}, and {row.rhythm}, while {unread(row.seen)}"
    ),
    VerdictRule.FALLS_BEHIND: _falling_behind,
    VerdictRule.NEVER_MOVED: lambda row: (
        f"was not seen to move in {row.still}, while {unread(row.seen)}; too little is known to call it stopped"
    ),
    VerdictRule.MOVES: lambda row: f"last moved {row.still} ago, and {row.rhythm}; {unread(row.seen)}",
}
