"""The table of verdict rules, from which statuses, extensions, `explain`, sentences and docs/verdicts.md derive.

To add a rule, write its predicate (`lagwatch_rules.py`), its sentence (`sentences.py`) and its entry here. An extension
of its own is one more line in `Extension`; the numbers that `explain` shows beside it are optional (`rule_numbers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.verdict import lagwatch_rules as predicates
from lagwatch.verdict import rule_numbers as numbers
from lagwatch.verdict import sentences
from lagwatch.verdict.facts import Flags
from lagwatch.verdict.lagwatch_rules import RuleRows
from lagwatch.verdict.policy import Extension
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.rule_numbers import no_numbers
from lagwatch.verdict.status import Status, VerdictRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """One rule. `holds` is lagwatch's predicate; `classify.py` has Burrow's.

    The extension `enabled_by` enables the rule, `replaced_by` turns it off, those in `refined_by` change what it looks
    for. A rule that `is_immediate` does not read the slots of the window.
    """

    number: int
    name: str
    status: Status
    question: str
    holds: Callable[[RuleRows], Flags]
    sentence: Callable[[RuleInputs], str]
    numbers: Callable[[RuleInputs], str] = no_numbers
    enabled_by: Extension | None = None
    replaced_by: Extension | None = None
    refined_by: tuple[Extension, ...] = ()
    is_burrow: bool = False
    is_immediate: bool = False

    def __post_init__(self) -> None:
        if not (self.name and self.question):
            raise ValueError(f"rule {self.number} needs a name and a question")

    @property
    def identifier(self) -> str:
        """Its name in JSON."""
        return self.name.replace(" ", "_")

    @property
    def extensions(self) -> list[Extension]:
        """The extensions that concern it."""
        return [one for one in (self.enabled_by, self.replaced_by, *self.refined_by) if one is not None]

    def match(self, rows: RuleRows) -> Flags:
        """The rows it holds for, by lagwatch's rules and their extensions."""
        holds = self.holds(rows)
        if self.enabled_by is not None:
            holds = holds & rows.policy.is_enabled(self.enabled_by)
        if self.replaced_by is not None:
            holds = holds & ~rows.policy.is_enabled(self.replaced_by)
        return holds

    def is_off(self, inputs: RuleInputs) -> bool:
        """Whether the settings of a row turn it off."""
        if inputs.is_burrow:
            return not self.is_burrow
        disabled = self.enabled_by is not None and not inputs.is_enabled(self.enabled_by)
        return disabled or (self.replaced_by is not None and inputs.is_enabled(self.replaced_by))


# In the order of evaluation: the first that holds decides.
#
# Immediate rules come first. A topic that an active group abandoned does not count; lost messages are lost, however small
# the lag; then rows without enough commits, and rows without lag. Of the others, missing members are proof and come before
# silence, which is only a sign. Then Burrow's order: silence first, because a group that stopped long ago may have had no
# lag when it stopped; a rewind before a zero lag in the window, which would hide a jump back to the start; then a zero lag
# excuses the rest, unless it is long overdue. Partitions that never moved come last: there is no other evidence about them.
RULES: tuple[RuleSpec, ...] = (
    RuleSpec(
        number=VerdictRule.ABANDONED, name="abandoned", status=Status.OK, enabled_by=Extension.ABANDONED, is_immediate=True,
        question="topic abandoned by an active group?",
        holds=predicates.is_abandoned, sentence=sentences.abandoned, numbers=numbers.assignment,
    ),
    RuleSpec(
        number=VerdictRule.LOST, name="lost", status=Status.ERR, enabled_by=Extension.LOSS, is_immediate=True,
        question="messages lost recently, or by a group with members?",
        holds=predicates.is_losing, sentence=sentences.lost, numbers=numbers.loss,
    ),
    RuleSpec(
        number=VerdictRule.LOST_AND_GONE, name="lost and gone", status=Status.STOP, enabled_by=Extension.LOSS,
        is_immediate=True, question="messages lost long ago, group without members?",
        holds=predicates.has_lost, sentence=sentences.lost_and_gone, numbers=numbers.loss,
    ),
    RuleSpec(
        number=VerdictRule.NOTHING_COMMITTED, name="nothing committed", status=Status.OK, is_burrow=True, is_immediate=True,
        question="nothing committed?",
        holds=predicates.has_nothing_committed, sentence=sentences.nothing_committed, numbers=numbers.commits,
    ),
    RuleSpec(
        number=VerdictRule.INCOMPLETE, name="incomplete", status=Status.OK, is_burrow=True, is_immediate=True,
        question="too few slots filled?",
        holds=predicates.is_incomplete, sentence=sentences.incomplete, numbers=numbers.slots,
    ),
    RuleSpec(
        number=VerdictRule.CAUGHT_UP, name="caught up", status=Status.OK, is_burrow=True, is_immediate=True,
        question="everything read?",
        holds=predicates.has_caught_up, sentence=sentences.caught_up, numbers=numbers.lag,
    ),
    RuleSpec(
        number=VerdictRule.ONLY_MARKERS, name="only markers", status=Status.OK, enabled_by=Extension.MARKERS,
        is_immediate=True, question="only transaction markers left?",
        holds=predicates.has_only_markers_left, sentence=sentences.only_markers, numbers=numbers.markers,
    ),
    RuleSpec(
        number=VerdictRule.MEMBERS_GONE, name="members gone", status=Status.STOP, enabled_by=Extension.MEMBERS_GONE,
        question="all members gone, and overdue?",
        holds=predicates.are_members_gone, sentence=sentences.members_gone, numbers=numbers.members,
    ),
    RuleSpec(
        number=VerdictRule.SILENT, name="silent", status=Status.STOP, refined_by=(Extension.PATIENCE,), is_burrow=True,
        question="silent for longer than its commits span?",
        holds=predicates.has_fallen_silent, sentence=sentences.silent, numbers=numbers.silence,
    ),
    RuleSpec(
        number=VerdictRule.REWOUND, name="rewound", status=Status.REWIND, is_burrow=True,
        refined_by=(Extension.EVERY_REWIND,), question="below an earlier offset?",
        holds=predicates.is_rewound, sentence=sentences.rewound, numbers=numbers.rewind,
    ),
    RuleSpec(
        number=VerdictRule.HAD_NO_LAG, name="had no lag", status=Status.OK, is_burrow=True,
        refined_by=(Extension.MARKERS, Extension.PATIENCE), question="no lag at one of its commits?",
        holds=predicates.had_no_lag, sentence=sentences.had_no_lag, numbers=numbers.lowest_lag,
    ),
    RuleSpec(
        number=VerdictRule.STALLED, name="stalled", status=Status.STALL, refined_by=(Extension.PATIENCE,), is_burrow=True,
        question="at one offset for too long?",
        holds=predicates.has_stalled, sentence=sentences.stalled, numbers=numbers.stall,
    ),
    RuleSpec(
        number=VerdictRule.ONLY_GROWS, name="only grows", status=Status.WARN, replaced_by=Extension.TREND, is_burrow=True,
        question="lag never fell?",
        holds=predicates.only_grows, sentence=sentences.only_grows, numbers=numbers.growth,
    ),
    RuleSpec(
        number=VerdictRule.FALLS_BEHIND, name="falls behind", status=Status.WARN, enabled_by=Extension.TREND,
        question="lag grows, despite dips?",
        holds=predicates.falls_behind, sentence=sentences.falls_behind, numbers=numbers.trend,
    ),
    RuleSpec(
        number=VerdictRule.NEVER_MOVED, name="never moved", status=Status.WARN, enabled_by=Extension.PATIENCE,
        question="no move observed?",
        holds=predicates.never_moved, sentence=sentences.never_moved, numbers=numbers.movement,
    ),
    RuleSpec(
        number=VerdictRule.MOVES, name="moves", status=Status.OK, is_burrow=True,
        question="none of these: it moves",
        holds=predicates.moves, sentence=sentences.moves, numbers=numbers.last_move,
    ),
)  # fmt: skip


def check_table(rules: Sequence[RuleSpec]) -> None:
    """Raise ValueError where a table contradicts itself or the names that code uses."""
    by_number = {spec.number: spec for spec in rules}
    if sorted(by_number) != list(range(len(rules))):
        raise ValueError("the numbers of the rules must be 0, 1, 2 and so on, each once")
    for rule in VerdictRule:
        if by_number[rule].identifier != rule.name.lower():
            raise ValueError(f"rule {int(rule)} is {by_number[rule].name} in the table and {rule.name} in VerdictRule")
    if [spec.is_immediate for spec in rules] != sorted((spec.is_immediate for spec in rules), reverse=True):
        raise ValueError("immediate rules must come before those that read the window")
    if rules[-1].number != VerdictRule.MOVES:
        raise ValueError("the last rule must be MOVES, which always holds")
    unused = set(Extension) - {one for spec in rules for one in spec.extensions}
    if unused:
        raise ValueError(f"extensions that concern no rule: {', '.join(sorted(str(one.name) for one in unused))}")


def statuses_by_number(rules: Sequence[RuleSpec]) -> npt.NDArray[np.uint8]:
    """The status each rule leads to, indexed by its number."""
    status = np.zeros(len(rules), np.uint8)
    for spec in rules:
        status[spec.number] = spec.status
    return status


def extension_names(rules: Sequence[RuleSpec]) -> tuple[str, ...]:
    """The extensions that rules refer to, as `verdicts.disable` spells them."""
    found = {int(one): one for spec in rules for one in spec.extensions}
    return tuple(str(found[bit].name).lower() for bit in sorted(found))


check_table(RULES)
BY_NUMBER = {spec.number: spec for spec in RULES}
STATUS_OF_RULE = statuses_by_number(RULES)
EXTENSION_NAMES = extension_names(RULES)
