"""Why a verdict is what it is: the deciding rule and its numbers in one sentence, without the status.

The status has a column of its own; text that shows only the sentence puts it in front with `with_status`.
"""

from __future__ import annotations

from lagwatch.verdict.group_rollup import GroupVerdicts
from lagwatch.verdict.rule_inputs import RuleInputs
from lagwatch.verdict.rules import BY_NUMBER
from lagwatch.verdict.status import Status


def why_partition(rule: int, inputs: RuleInputs) -> str:
    """The sentence for one row, by the rule that decided."""
    return BY_NUMBER[rule].sentence(inputs)


def why_kept(rule: int) -> str:
    """The sentence for a row that could not be polled since its last verdict."""
    return f'as of the last successful poll, decided by rule "{BY_NUMBER[rule].name}"'


def why_group(groups: GroupVerdicts, group: int, worst: str) -> str:
    """The sentence for one group; `worst` is the one of its worst partition, with the partition's name and status."""
    count, not_ok = int(groups.partitions[group]), int(groups.not_ok[group])
    if groups.status[group] == Status.NOTFOUND:
        return "the group does not exist"
    if not count:
        return "it has no partitions: its topics are gone"
    if not not_ok:
        return "its only partition is OK" if count == 1 else f"all its {count} partitions are OK"
    if count == 1:
        return worst
    return f"{worst} ({not_ok} of {count} partitions {'is' if not_ok == 1 else 'are'} not OK)"


def with_status(status: str, why: str) -> str:
    """`STOP: all its members are gone`: for text that shows no status beside the sentence."""
    return f"{status}: {why}"
