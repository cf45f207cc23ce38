"""How each rule came out for one partition, with the numbers it looked at. Pure; the rules themselves say what holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from lagwatch.evaluation import EvaluatedRows
from lagwatch.text import duration_text
from lagwatch.verdict.lagwatch_rules import GAPS, NEVER_MOVED_MS, patience_ms
from lagwatch.verdict.policy import Extension
from lagwatch.verdict.rule_outcomes import RuleOutcome, rule_outcomes
from lagwatch.verdict.status import Mode, VerdictRule
from lagwatch.verdict.why import WindowSummary, summarize_window


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What the rules look at, of one row, as plain numbers; durations in seconds."""

    seen: WindowSummary
    is_burrow: bool
    extensions: Extension
    allowed: int
    minimum: float
    floor: float
    still: float
    gap: float
    patience: float
    unread: float
    arrives: float
    remainder: int
    log_start: int
    lost: float | None
    had_members: bool
    has_members: bool
    abandoned: bool
    silent: float

    @classmethod
    def of(cls, judged: EvaluatedRows, row: int) -> RuleInputs:
        """The case of one row."""
        facts, policy, seen = judged.facts, judged.policy, summarize_window(judged.windows, row)
        newest = seen.times_ms[-1] if seen.times_ms else judged.now_ms
        lost_ms = int(facts.lost_ms[row])
        return cls(
            seen=seen,
            is_burrow=bool(policy.mode[row] == Mode.BURROW),
            extensions=Extension(int(policy.extensions[row])),
            allowed=int(policy.allowed_lag[row]),
            minimum=round(float(policy.minimum_complete[row]), 3),
            floor=int(policy.floor_ms[row]) / 1000,
            still=int(facts.still_ms[row]) / 1000,
            gap=int(facts.gap_ms[row]) / 1000,
            patience=int(patience_ms(facts.gap_ms[[row]], policy.floor_ms[[row]])[0]) / 1000,
            unread=int(facts.unread_ms[row]) / 1000,
            arrives=float(facts.messages_a_second[row]),
            remainder=int(facts.remainder[row]),
            log_start=int(facts.log_start[row]),
            lost=lost_ms / 1000 if lost_ms >= 0 else None,
            had_members=bool(facts.had_members[row]),
            has_members=bool(facts.has_members[row]),
            abandoned=bool(facts.abandoned[row]),
            silent=max(judged.now_ms - newest, 0) / 1000,
        )

    @property
    def span(self) -> float:
        """What its commits span."""
        times = self.seen.times_ms
        return max(times[-1] - times[0], 0) / 1000 if times else 0.0


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule: `answer` is yes, no or off; `numbers` is what it looked at. Those after the one that decides are moot."""

    rule: VerdictRule
    answer: str
    decides: bool
    moot: bool
    question: str
    numbers: str


def rule_lines(judged: EvaluatedRows, row: int) -> list[RuleLine]:
    """Every rule in order. What could not be asked keeps its verdict, so the one that decided may be another."""
    case = RuleInputs.of(judged, row)
    outcomes = rule_outcomes(judged.windows, judged.facts, judged.policy, row, judged.now_ms)
    lines, decided = [], False
    for outcome in outcomes:
        question, numbers = _RULES[outcome.rule]
        said = numbers(case)
        lines.append(RuleLine(outcome.rule, _answer(outcome, case), outcome.decides, decided, question, said))
        decided |= outcome.decides
    return lines


def _answer(outcome: RuleOutcome, case: RuleInputs) -> str:
    switch = _SWITCH.get(outcome.rule)
    if not case.is_burrow and ((switch and not case.extensions & switch) or _is_replaced(outcome.rule, case)):
        return "off"
    return "yes" if outcome.holds else "no"


def _is_replaced(rule: VerdictRule, case: RuleInputs) -> bool:
    return rule is VerdictRule.ONLY_GROWS and bool(case.extensions & Extension.TREND)


_SWITCH = {
    VerdictRule.ABANDONED: Extension.ABANDONED,
    VerdictRule.LOST: Extension.LOSS,
    VerdictRule.LOST_AND_GONE: Extension.LOSS,
    VerdictRule.ONLY_MARKERS: Extension.REMAINDER,
    VerdictRule.MEMBERS_GONE: Extension.MEMBERS_GONE,
    VerdictRule.FALLS_BEHIND: Extension.TREND,
    VerdictRule.NEVER_MOVED: Extension.PATIENCE,
}


def _assigned(case: RuleInputs) -> str:
    if case.abandoned:
        return "members are assigned other topics, none this one"
    return "members are assigned it, or none can be seen" if case.has_members else "the group has no members"


def _loss(case: RuleInputs) -> str:
    start = "the log start is not known" if case.log_start < 0 else f"the log starts at {case.log_start}"
    offset = f"its offset is {case.seen.offsets[-1]}" if case.seen.offsets else "it has no offset"
    lost = "" if case.lost is None else f", below it for {duration_text(case.lost)}"
    who = "" if case.lost is None else f"; {'it has members' if case.has_members else 'it has no members'}"
    return f"{offset}, {start}{lost}{who}"


def _overdue(case: RuleInputs) -> str:
    why = f"{GAPS} x its longest gap of {duration_text(case.gap)}" if case.gap else "its rhythm is not known"
    floor = duration_text(case.floor)
    still = f"still for {duration_text(case.still)} of {duration_text(case.patience)} allowed ({why}, {floor} at least)"
    return f"{still}; the oldest unread waits for {duration_text(case.unread)} or longer, {floor} allowed"


def _members(case: RuleInputs) -> str:
    who = "it has members" if case.has_members else "all are gone" if case.had_members else "it never had any"
    return who if case.has_members or not case.had_members else f"{who}; {_overdue(case)}"


def _silence(case: RuleInputs) -> str:
    span = f"newest commit {duration_text(case.silent)} ago, {case.seen.commits} span {duration_text(case.span)}"
    if case.silent <= case.span or not case.seen.offsets:
        return span
    lowest = min(case.seen.ends, default=None)
    read = lowest is not None and lowest <= case.seen.offsets[-1]
    caught_up = "had read everything a few polls ago" if read else "had not read everything at any end kept"
    patience = "" if case.is_burrow or not case.extensions & Extension.PATIENCE else f"; {_overdue(case)}"
    return f"{span}; {caught_up}{patience}"


def _rewind(case: RuleInputs) -> str:
    offsets = case.seen.offsets
    best = max(offsets, default=0)
    if case.is_burrow or not case.extensions & Extension.EVERY_REWIND:
        drop = next(((a, b) for a, b in pairwise(offsets) if b < a), None)
        return "no step back" if drop is None else f"first step back from {drop[0]} to {drop[1]}, now at {offsets[-1]}"
    return f"now at {offsets[-1] if offsets else '-'}, its best in the window is {best}"


def _lowest(case: RuleInputs) -> str:
    if not case.seen.lags:
        return "the lag at its commits is not known"
    allowed = max(case.allowed, 0 if case.is_burrow else case.remainder)
    return f"lowest lag at one of {case.seen.commits}: {min(case.seen.lags)}, allowed {allowed}"


def _stall(case: RuleInputs) -> str:
    offsets = case.seen.offsets
    if len(set(offsets)) > 1:
        return f"its offset went from {offsets[0]} to {offsets[-1]}"
    at = f"{case.seen.commits} at offset {offsets[-1]}" if offsets else "no commit"
    return at if case.is_burrow or not case.extensions & Extension.PATIENCE else f"{at}; {_overdue(case)}"


def _growth(case: RuleInputs) -> str:
    drop = next(((a, b) for a, b in pairwise(case.seen.lags) if b < a), None)
    return f"lags {_ends_of(case.seen.lags)}" + (f", fell from {drop[0]} to {drop[1]}" if drop else ", never fell")


def _trend(case: RuleInputs) -> str:
    lags = case.seen.lags
    pairs = list(combinations(lags, 2))
    rise, fall = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    explained = case.arrives * case.gap * GAPS
    return (
        f"lags {_ends_of(lags)} over {duration_text(case.span)} ({duration_text(case.floor)} at least); "
        f"of {len(pairs)} pairs {rise} rise and {fall} fall (half of all more must rise); "
        f"{explained:.0f} are explained by its rhythm"
    )


def _ends_of(lags: list[int]) -> str:
    return f"{lags[0]} to {lags[-1]}" if lags else "not known"


def _never(case: RuleInputs) -> str:
    moves = "it was seen to move" if case.gap or len(case.seen.offsets) > 1 else "it was never seen to move"
    return f"{moves}; still for {duration_text(case.still)}, {duration_text(NEVER_MOVED_MS / 1000)} allowed"


def _lag(case: RuleInputs) -> str:
    return f"lag {case.seen.lag}"


_RULES: Mapping[VerdictRule, tuple[str, Callable[[RuleInputs], str]]] = {
    VerdictRule.ABANDONED: ("a topic nobody of a living group reads?", _assigned),
    VerdictRule.LOST: ("messages lost, lately or still?", _loss),
    VerdictRule.LOST_AND_GONE: ("lost long ago, and nobody there?", _loss),
    VerdictRule.NOTHING_COMMITTED: ("nothing committed?", lambda case: f"{len(case.seen.offsets)} commits kept"),
    VerdictRule.INCOMPLETE: (
        "too few slots filled?",
        lambda case: f"{len(case.seen.offsets)} of {case.seen.width}, at least {case.minimum:g} of them wanted",
    ),
    VerdictRule.CAUGHT_UP: ("all read?", lambda case: f"{_lag(case)}, allowed {case.allowed}"),
    VerdictRule.ONLY_MARKERS: (
        "only transaction markers left?",
        lambda case: f"{_lag(case)}, {case.remainder or 'nothing'} known to be markers",
    ),
    VerdictRule.MEMBERS_GONE: ("members gone, and overdue?", _members),
    VerdictRule.SILENT: ("silent longer than its commits span?", _silence),
    VerdictRule.REWOUND: ("below where it was?", _rewind),
    VerdictRule.HAD_NO_LAG: ("had no lag at some commit?", _lowest),
    VerdictRule.STALLED: ("the same offset over and over?", _stall),
    VerdictRule.ONLY_GROWS: ("lag never fell?", _growth),
    VerdictRule.FALLS_BEHIND: ("lag grows, dips or not?", _trend),
    VerdictRule.NEVER_MOVED: ("never seen to move?", _never),
    VerdictRule.MOVES: ("none of these: it moves", lambda case: f"last moved {duration_text(case.still)} ago"),
}
