"""Why a rule decided, in one sentence with the numbers behind it: one function per rule, without the status."""

from __future__ import annotations

from itertools import pairwise

from lagwatch.text import duration_text
from lagwatch.verdict.rule_inputs import RuleInputs, WindowSummary


def abandoned(_: RuleInputs) -> str:
    """ABANDONED."""
    return "not evaluated: the group is active, but none of its members is assigned this topic"


def lost(inputs: RuleInputs) -> str:
    """LOST."""
    offset = inputs.window.offsets[-1]
    deleted = f"{inputs.log_start - offset} messages were deleted unread"
    return f"{deleted}: its offset {offset} is below the log start {inputs.log_start}"


def lost_and_gone(inputs: RuleInputs) -> str:
    """LOST_AND_GONE."""
    return f"{lost(inputs)}, and it has not moved for {duration_text(inputs.still)}"


def nothing_committed(_: RuleInputs) -> str:
    """NOTHING_COMMITTED."""
    return "nothing has been committed yet"


def incomplete(inputs: RuleInputs) -> str:
    """INCOMPLETE."""
    filled = f"{len(inputs.window.offsets)} of {inputs.window.width} slots are filled"
    return f"not evaluated: {filled}, less than the minimum of {inputs.minimum:g}"


def caught_up(inputs: RuleInputs) -> str:
    """CAUGHT_UP."""
    lag = inputs.window.lag
    return f"a lag of {lag} is within the allowed {inputs.allowed}" if lag else "nothing is unread"


def only_markers(inputs: RuleInputs) -> str:
    """ONLY_MARKERS."""
    return f"its lag of {inputs.window.lag} is transaction markers, not messages"


def members_gone(inputs: RuleInputs) -> str:
    """MEMBERS_GONE."""
    still = f"it has not moved for {duration_text(inputs.still)}, and {_rhythm(inputs)}"
    return f"all its members are gone; {still}, while {inputs.window.unread}"


def silent(inputs: RuleInputs) -> str:
    """SILENT. Burrow's clock ticks in whole seconds."""
    window = inputs.window
    age = _seconds(inputs.now_ms // 1000 * 1000 - window.times_ms[-1])
    if len(window.offsets) == 1:
        past = f"silent {age} since its only commit"
    elif window.span_ms < 0:
        past = f"silent {age}: the newest of {window.commits} has an older time than the oldest"
    else:
        past = f"silent {age}, longer than the {_seconds(window.span_ms)} {window.commits} span"
    if not window.ends:
        return f"{past}, while {window.unread}"
    if window.ends[0] == window.ends[-1]:
        return f"{past}, while the log end is {window.ends[-1]}, past its offset {window.offsets[-1]}"
    return f"{past}, while the log end moved from {window.ends[0]} to {window.ends[-1]}"


def rewound(inputs: RuleInputs) -> str:
    """REWOUND."""
    window = inputs.window
    if inputs.is_burrow:
        best, lowest = _first_drop(window.offsets)
        back = f"back from offset {best} to {lowest}"
    else:
        best = max(window.offsets)
        lowest = min(window.offsets[window.offsets.index(best) :])
        to_start = ", the log start," if lowest <= inputs.log_start else ""
        back = f"{best - lowest} messages back, from offset {best} to {lowest}{to_start}"
    return f"went {back} and has not reached {best} since; {window.unread}"


def had_no_lag(inputs: RuleInputs) -> str:
    """HAD_NO_LAG."""
    window = inputs.window
    if not inputs.is_burrow:
        return f"had a lag of {min(window.lags)} at one of {window.commits}; {window.unread} now"
    lag = next(lag for lag in reversed(window.lags) if lag <= inputs.allowed)
    within = f", within the allowed {inputs.allowed}," if inputs.allowed else ""
    return f"had a lag of {lag}{within} at one of {window.commits}; {window.unread} now"


def stalled(inputs: RuleInputs) -> str:
    """STALLED."""
    window = inputs.window
    if not inputs.is_burrow:
        still = f"at offset {window.offsets[-1]} for {duration_text(inputs.still)}"
        return f"{still}, and {_rhythm(inputs)}, while {window.unread}"
    are = "is" if len(window.offsets) == 1 else f"over {_seconds(window.span_ms)} are all"
    return f"{window.commits} {are} at offset {window.offsets[-1]} while {window.unread}"


def only_grows(inputs: RuleInputs) -> str:
    """ONLY_GROWS."""
    return f"moves, but {_growth(inputs.window)}; {inputs.window.unread}"


def falls_behind(inputs: RuleInputs) -> str:
    """FALLS_BEHIND."""
    window = inputs.window
    growth = f"its lag grew from {window.lags[0]} to {window.move_lags[-1]} over {window.commits}"
    return f"moves, but {growth}, while {inputs.messages_a_second:.3g} messages arrive a second; {window.unread}"


def never_moved(inputs: RuleInputs) -> str:
    """NEVER_MOVED."""
    still = duration_text(inputs.still)
    return f"has not moved in {still} of observation, while {inputs.window.unread}; too little evidence for STOP"


def moves(inputs: RuleInputs) -> str:
    """MOVES."""
    window = inputs.window
    if not inputs.is_burrow:
        return f"last moved {duration_text(inputs.still)} ago, and {_rhythm(inputs)}; {window.unread}"
    before, after = _first_drop(window.lags)
    return f"moves, and its lag fell from {before} to {after} within {window.commits}; {window.unread}"


def _rhythm(inputs: RuleInputs) -> str:
    if not inputs.gap:
        return "fewer than two moves were observed"
    return f"its longest gap between moves was {duration_text(inputs.gap)}"


def _growth(window: WindowSummary) -> str:
    lags = window.lags
    if len(lags) < 2:
        return f"the lag of {'only one' if lags else 'none'} of {window.commits} is known, so it never fell"
    if lags[0] == lags[-1]:
        return f"its lag stayed at {lags[0]} over {window.commits}"
    return f"its lag only grew, from {lags[0]} to {lags[-1]}, over {window.commits}"


def _first_drop(values: list[int]) -> tuple[int, int]:
    return next((before, after) for before, after in pairwise(values) if after < before)


def _seconds(ms: int) -> str:
    """Seconds, with ms where they decide: a silence of 90.001 s is longer than a span of 90 s."""
    return f"{ms // 1000} s" if ms % 1000 == 0 else f"{ms / 1000:.3f} s"
