"""Why a verdict is what it is: the rule and the numbers that decided it, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lagwatch.verdict.burrow_rules import Verdicts
from lagwatch.verdict.group_rollup import GroupVerdicts
from lagwatch.verdict.policy import Policy
from lagwatch.verdict.status import Status, VerdictRule
from lagwatch.windows.view import Windows


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """What the window of one row holds, oldest first, as plain numbers. Unknown lags are left out of `lags`."""

    width: int
    offsets: list[int]
    times_ms: list[int]
    lags: list[int]
    ends: list[int]
    lag: int

    @property
    def commits(self) -> str:
        """Its commits, in words."""
        return "its only commit" if len(self.offsets) == 1 else f"its last {len(self.offsets)} commits"


def why_partition(windows: Windows, verdicts: Verdicts, policy: Policy, row: int, now_s: int) -> str:
    """The sentence for one row, beginning with its status."""
    seen = summarize_window(windows, row)
    allowed = int(policy.allowed_lag[row])
    match VerdictRule(verdicts.rule[row]):
        case VerdictRule.NOTHING_COMMITTED:
            reason = "nothing has been committed yet"
        case VerdictRule.INCOMPLETE:
            minimum = float(str(policy.minimum_complete[row]))
            filled = f"{len(seen.offsets)} of {seen.width} slots are filled"
            reason = f"not judged: {filled}, less than the minimum of {minimum:g}"
        case VerdictRule.CAUGHT_UP:
            reason = f"a lag of {seen.lag} is within the allowed {allowed}" if seen.lag else "nothing is unread"
        case VerdictRule.SILENT:
            reason = _silence(seen, now_s)
        case VerdictRule.REWOUND:
            before, after = _first_drop(seen.offsets)
            reason = f"went back from offset {before} to {after} and has not reached {before} since; {unread(seen)}"
        case VerdictRule.HAD_NO_LAG:
            lag = next(lag for lag in reversed(seen.lags) if lag <= allowed)
            within = f", within the allowed {allowed}," if allowed else ""
            reason = f"had a lag of {lag}{within} at one of {seen.commits}; {unread(seen)} now"
        case VerdictRule.STALLED:
            stand = "is" if len(seen.offsets) == 1 else f"over {_span(seen)} are all"
            reason = f"{seen.commits} {stand} at offset {seen.offsets[-1]} while {unread(seen)}"
        case VerdictRule.ONLY_GROWS:
            reason = f"moves, but {_growth(seen)}; {unread(seen)}"
        case _:
            before, after = _first_drop(seen.lags)
            reason = f"moves, and its lag fell from {before} to {after} within {seen.commits}; {unread(seen)}"
    return f"{Status(verdicts.status[row]).name}: {reason}"


def why_group(groups: GroupVerdicts, group: int, worst: str) -> str:
    """The sentence for one group; `worst` is that of its worst partition, with the partition's name in front."""
    status = Status(groups.status[group])
    count, not_ok = int(groups.partitions[group]), int(groups.not_ok[group])
    if status is Status.NOTFOUND:
        reason = "the group is not known"
    elif not count:
        reason = "it has no partitions: its topics are gone"
    elif not not_ok:
        reason = "its only partition is OK" if count == 1 else f"all its {count} partitions are OK"
    elif count == 1:
        reason = worst
    else:
        reason = f"{worst} ({not_ok} of {count} partitions {'is' if not_ok == 1 else 'are'} not OK)"
    return f"{status.name}: {reason}"


def summarize_window(windows: Windows, row: int) -> WindowSummary:
    """The window of one row."""
    kept = int(windows.kept[row])
    first = windows.slots - kept
    end_row = int(windows.end_row[row])
    ends = windows.ends[end_row].tolist() if end_row >= 0 else []
    return WindowSummary(
        int(windows.width[row]),
        windows.offset[row, first:].tolist(),
        windows.timestamp[row, first:].tolist(),
        [lag for lag in windows.lag[row, first:].tolist() if lag >= 0],
        ends[len(ends) - int(windows.ends_kept[end_row]) :] if ends else [],
        int(windows.current_lag[row]),
    )


def _silence(seen: WindowSummary, now_s: int) -> str:
    silent = _seconds(now_s * 1000 - seen.times_ms[-1])
    span_ms = seen.times_ms[-1] - seen.times_ms[0]
    if len(seen.offsets) == 1:
        past = f"silent {silent} since its only commit"
    elif span_ms < 0:
        past = f"silent {silent}: the newest of {seen.commits} carries an older time than the oldest"
    else:
        past = f"silent {silent}, longer than the {_seconds(span_ms)} {seen.commits} span"
    if not seen.ends:
        return f"{past}, while {unread(seen)}"
    if seen.ends[0] == seen.ends[-1]:
        return f"{past}, while the end stands at {seen.ends[-1]}, past its offset {seen.offsets[-1]}"
    return f"{past}, while the end moved from {seen.ends[0]} to {seen.ends[-1]}"


def _growth(seen: WindowSummary) -> str:
    if len(seen.lags) < 2:
        return f"the lag of {'only one' if seen.lags else 'none'} of {seen.commits} is known, so it never fell"
    if seen.lags[0] == seen.lags[-1]:
        return f"its lag stayed at {seen.lags[0]} over {seen.commits}"
    return f"its lag only grew, from {seen.lags[0]} to {seen.lags[-1]}, over {seen.commits}"


def _first_drop(values: list[int]) -> tuple[int, int]:
    return next((before, after) for before, after in pairwise(values) if after < before)


def unread(seen: WindowSummary) -> str:
    """How much is unread, in words."""
    return "1 message is unread" if seen.lag == 1 else f"{seen.lag} messages are unread"


def _span(seen: WindowSummary) -> str:
    return _seconds(seen.times_ms[-1] - seen.times_ms[0])


def _seconds(ms: int) -> str:
    """Seconds, to the ms where that is what decides: silence of 90.001 s is longer than a span of 90 s."""
    return f"{ms // 1000} s" if ms % 1000 == 0 else f"{ms / 1000:.3f} s"
