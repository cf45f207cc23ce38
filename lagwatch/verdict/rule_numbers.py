"""The numbers a rule compares, as `lagwatch explain` shows them whether the rule holds or not."""

from __future__ import annotations

from itertools import combinations, pairwise

from lagwatch.text import duration_text
from lagwatch.verdict.lagwatch_rules import GAPS, NEVER_MOVED_MS
from lagwatch.verdict.policy import Extension
from lagwatch.verdict.rule_inputs import RuleInputs


def no_numbers(inputs: RuleInputs) -> str:  # noqa: ARG001
    """Nothing, for a rule whose question says it all."""
    return ""


def assignment(inputs: RuleInputs) -> str:
    """Who is assigned the topic."""
    if inputs.abandoned:
        return "members are assigned other topics, not this one"
    if not inputs.has_members:
        return "the group has no members"
    return "members are assigned this topic, or assignments are unknown"


def loss(inputs: RuleInputs) -> str:
    """The offset against the log start."""
    start = "the log start is unknown" if inputs.log_start < 0 else f"the log starts at {inputs.log_start}"
    offset = f"its offset is {inputs.window.offsets[-1]}" if inputs.window.offsets else "it has no offset"
    if inputs.lost is None:
        return f"{offset}, {start}"
    members = "it has members" if inputs.has_members else "it has no members"
    return f"{offset}, {start}, below it for {duration_text(inputs.lost)}; {members}"


def commits(inputs: RuleInputs) -> str:
    """Commits in the window."""
    return f"{len(inputs.window.offsets)} commits kept"


def slots(inputs: RuleInputs) -> str:
    """Filled slots against the required share."""
    return f"{len(inputs.window.offsets)} of {inputs.window.width}, required share {inputs.minimum:g}"


def lag(inputs: RuleInputs) -> str:
    """The lag against the allowed lag."""
    return f"lag {inputs.window.lag}, allowed {inputs.allowed}"


def markers(inputs: RuleInputs) -> str:
    """The lag against the known markers."""
    return f"lag {inputs.window.lag}, {inputs.markers or 'none'} known to be markers"


def members(inputs: RuleInputs) -> str:
    """Whether the group has members and, where they are gone, how long it has not moved."""
    if inputs.has_members:
        return "it has members"
    return f"all are gone; {_overdue(inputs)}" if inputs.had_members else "it never had members"


def silence(inputs: RuleInputs) -> str:
    """The age of the newest commit against the time that commits span."""
    window = inputs.window
    spans = "spans" if len(window.offsets) == 1 else "span"
    span = f"newest commit {duration_text(inputs.silent)} ago, {window.commits} {spans} {duration_text(inputs.span)}"
    if inputs.silent <= inputs.span or not window.offsets:
        return span
    lowest = min(window.ends, default=None)
    read = lowest is not None and lowest <= window.offsets[-1]
    caught_up = "had read everything a few polls ago" if read else "had not read everything at any kept log end"
    patience = f"; {_overdue(inputs)}" if inputs.is_enabled(Extension.PATIENCE) else ""
    return f"{span}; {caught_up}{patience}"


def rewind(inputs: RuleInputs) -> str:
    """The offset against the highest in the window."""
    offsets = inputs.window.offsets
    if inputs.is_enabled(Extension.EVERY_REWIND):
        return f"now at {offsets[-1] if offsets else '-'}, highest in its window {max(offsets, default=0)}"
    drop = next(((before, after) for before, after in pairwise(offsets) if after < before), None)
    return "no step back" if drop is None else f"first step back from {drop[0]} to {drop[1]}, now at {offsets[-1]}"


def lowest_lag(inputs: RuleInputs) -> str:
    """The lowest lag in the window against the allowed lag."""
    if not inputs.window.lags:
        return "the lag at its commits is unknown"
    allowed = max(inputs.allowed, 0 if inputs.is_burrow else inputs.markers)
    overdue = "; but it has not moved for twice the time allowed" if inputs.is_long_overdue else ""
    return f"lowest lag at one of {inputs.window.commits}: {min(inputs.window.lags)}, allowed {allowed}{overdue}"


def stall(inputs: RuleInputs) -> str:
    """How far the offset moved in the window, and how long it has not moved."""
    offsets = inputs.window.offsets
    if len(set(offsets)) > 1:
        at, longer = f"its offset went from {offsets[0]} to {offsets[-1]}", ", twice that while a move is in the window"
    else:
        at = f"{inputs.window.commits} at offset {offsets[-1]}" if offsets else "no commit"
        is_full = not inputs.gap and len(offsets) == inputs.window.width
        longer = f", or {duration_text(inputs.floor)} with a full window" if is_full else ""
    return f"{at}; {_overdue(inputs)}{longer}" if inputs.is_enabled(Extension.PATIENCE) else at


def growth(inputs: RuleInputs) -> str:
    """The first fall of the lag."""
    lags = inputs.window.lags
    drop = next(((before, after) for before, after in pairwise(lags) if after < before), None)
    return f"lags {_first_to_last(lags)}" + (f", fell from {drop[0]} to {drop[1]}" if drop else ", never fell")


def trend(inputs: RuleInputs) -> str:
    """Rising against falling pairs of lags."""
    lags = inputs.window.lags
    pairs = list(combinations(lags, 2))
    rise, fall = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    explained = inputs.messages_a_second * inputs.gap * GAPS
    last = f", {inputs.window.move_lags[-1]} after its last move" if inputs.window.move_lags else ""
    return (
        f"lags {_first_to_last(lags)}{last} over {duration_text(inputs.span)} (at least {duration_text(inputs.floor)}); "
        f"of {len(pairs)} pairs {rise} rise and {fall} fall (the difference must be half of all); "
        f"a lag of {explained:.0f} is normal between its moves"
    )


def movement(inputs: RuleInputs) -> str:
    """Whether it has moved, and how long it has not."""
    moved = inputs.gap or len(inputs.window.offsets) > 1
    since = f"not moved for {duration_text(inputs.still)}, {duration_text(NEVER_MOVED_MS / 1000)} allowed"
    return f"{'it has moved' if moved else 'no move observed'}; {since}"


def last_move(inputs: RuleInputs) -> str:
    """When it last moved."""
    return f"last moved {duration_text(inputs.still)} ago"


def _overdue(inputs: RuleInputs) -> str:
    gap = f"{GAPS} x its longest gap of {duration_text(inputs.gap)}" if inputs.gap else "fewer than two moves observed"
    floor = duration_text(inputs.floor)
    allowed = f"{duration_text(inputs.patience)} allowed ({gap}, at least {floor})"
    unread = f"oldest unread message at least {duration_text(inputs.unread)} old, {floor} allowed"
    return f"not moved for {duration_text(inputs.still)}, {allowed}; {unread}"


def _first_to_last(lags: list[int]) -> str:
    return f"{lags[0]} to {lags[-1]}" if lags else "unknown"
