"""Renders the table of rules for docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Sequence

from lagwatch.verdict.rules import RULES, RuleSpec

_HEAD = ("| rule | name | status | question | mode |", "|---|---|---|---|---|")


def rule_table(rules: Sequence[RuleSpec] = RULES) -> str:
    """The rules by number, as a table in Markdown."""
    rows = (
        f"| {spec.number} | {spec.name} | {spec.status.name} | {spec.question} | {_mode(spec)} |"
        for spec in sorted(rules, key=lambda spec: spec.number)
    )
    return "".join(f"{line}\n" for line in (*_HEAD, *rows))


def _mode(spec: RuleSpec) -> str:
    if spec.replaced_by is not None:
        return f"burrow; lagwatch with `{_name(spec.replaced_by.name)}` disabled"
    if spec.refined_by:
        names = " and ".join(f"`{_name(one.name)}`" for one in spec.refined_by)
        return f"both; {names} {'refines' if len(spec.refined_by) == 1 else 'refine'} it"
    if spec.is_burrow:
        return "both"
    return "lagwatch" if spec.enabled_by is None else f"lagwatch, `{_name(spec.enabled_by.name)}`"


def _name(extension: str | None) -> str:
    return str(extension).lower()


if __name__ == "__main__":
    print(rule_table(), end="")  # noqa: T201
