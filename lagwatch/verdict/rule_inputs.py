"""What rules use of one row, as plain numbers: the input of sentences (`why`) and of the numbers that `explain` shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lagwatch.verdict.facts import Facts
from lagwatch.verdict.lagwatch_rules import patience_ms
from lagwatch.verdict.policy import NO_EXTENSIONS, Extension, Policy
from lagwatch.verdict.status import Mode
from lagwatch.windows.view import Windows


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """The window of one row, oldest first. `lags` leaves out unknown lags, and `move_lags` those of repeated commits too."""

    width: int
    offsets: list[int]
    times_ms: list[int]
    lags: list[int]
    move_lags: list[int]
    ends: list[int]
    lag: int

    @classmethod
    def of(cls, windows: Windows, row: int) -> WindowSummary:
        """The window of one row."""
        kept = int(windows.kept[row])
        first = windows.slots - kept
        end_row = int(windows.end_row[row])
        ends = windows.ends[end_row].tolist() if end_row >= 0 else []
        offsets, lags = windows.offset[row, first:].tolist(), windows.lag[row, first:].tolist()
        is_move = [before != offset for before, offset in zip([None, *offsets], offsets, strict=False)]
        return cls(
            int(windows.width[row]),
            offsets,
            windows.timestamp[row, first:].tolist(),
            [lag for lag in lags if lag >= 0],
            [lag for lag, moved in zip(lags, is_move, strict=True) if lag >= 0 and moved],
            ends[len(ends) - int(windows.ends_kept[end_row]) :] if ends else [],
            int(windows.current_lag[row]),
        )

    @property
    def commits(self) -> str:
        """`its only commit` or `its last 10 commits`."""
        return "its only commit" if len(self.offsets) == 1 else f"its last {len(self.offsets)} commits"

    @property
    def unread(self) -> str:
        """`50 messages are unread`."""
        return "1 message is unread" if self.lag == 1 else f"{self.lag} messages are unread"

    @property
    def span_ms(self) -> int:
        """Time from the oldest to the newest commit; negative where their times are out of order."""
        return self.times_ms[-1] - self.times_ms[0] if self.times_ms else 0


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """The inputs of one row; durations in seconds. Burrow's rules use only the first five."""

    window: WindowSummary
    now_ms: int
    is_burrow: bool
    allowed: int
    minimum: float
    extensions: Extension = NO_EXTENSIONS
    floor: float = 0.0
    still: float = 0.0
    gap: float = 0.0
    unread: float = 0.0
    messages_a_second: float = 0.0
    markers: int = 0
    log_start: int = -1
    lost: float | None = None
    had_members: bool = False
    has_members: bool = False
    abandoned: bool = False

    @classmethod
    def of_burrow(cls, windows: Windows, policy: Policy, row: int, now_ms: int) -> RuleInputs:
        """The inputs of a row of which only the window is known."""
        return cls(
            WindowSummary.of(windows, row), now_ms, is_burrow=True, allowed=int(policy.allowed_lag[row]),
            minimum=float(str(policy.minimum_complete[row])),
        )  # fmt: skip

    @classmethod
    def of(cls, windows: Windows, facts: Facts, policy: Policy, row: int, now_ms: int) -> RuleInputs:
        """The inputs of one row."""
        lost_ms = int(facts.lost_ms[row])
        return cls(
            window=WindowSummary.of(windows, row),
            now_ms=now_ms,
            is_burrow=bool(policy.mode[row] == Mode.BURROW),
            allowed=int(policy.allowed_lag[row]),
            minimum=float(str(policy.minimum_complete[row])),  # 0.7, which in 64 bits is 0.699999988
            extensions=Extension(int(policy.extensions[row])),
            floor=int(policy.floor_ms[row]) / 1000,
            still=int(facts.since_moved_ms[row]) / 1000,
            gap=int(facts.gap_ms[row]) / 1000,
            unread=int(facts.unread_ms[row]) / 1000,
            messages_a_second=float(facts.messages_a_second[row]),
            markers=int(facts.markers[row]),
            log_start=int(facts.log_start[row]),
            lost=lost_ms / 1000 if lost_ms >= 0 else None,
            had_members=bool(facts.had_members[row]),
            has_members=bool(facts.has_members[row]),
            abandoned=bool(facts.abandoned[row]),
        )

    @property
    def patience(self) -> float:
        """How long it may stay at one offset."""
        gap_ms, floor_ms = (np.array([round(seconds * 1000)]) for seconds in (self.gap, self.floor))
        return int(patience_ms(gap_ms, floor_ms)[0]) / 1000

    @property
    def is_long_overdue(self) -> bool:
        """Whether it is alive but has been at one offset, with a message unread, for twice its patience."""
        is_alive = len(self.window.offsets) > 1 and self.window.offsets[-1] == self.window.offsets[-2]
        waited = min(self.still, self.unread) >= 2 * self.patience
        return self.is_enabled(Extension.PATIENCE) and is_alive and waited

    @property
    def span(self) -> float:
        """Time its commits span."""
        return max(self.window.span_ms, 0) / 1000

    @property
    def silent(self) -> float:
        """Age of its newest commit."""
        return max(self.now_ms - self.window.times_ms[-1], 0) / 1000 if self.window.times_ms else 0.0

    def is_enabled(self, extension: Extension) -> bool:
        """Whether it is evaluated by lagwatch's rules with this extension on."""
        return not self.is_burrow and bool(self.extensions & extension)
