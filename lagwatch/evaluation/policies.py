"""Selects the policy of each group: the cluster's, or that of the first override whose pattern matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.verdict.policy import ALL_EXTENSIONS, DEFAULT_FLOOR_MS, Extension, Policy
from lagwatch.verdict.status import Mode


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """One set of settings. `min_distance_ms` and `expire_ms` are settings of Burrow's storage."""

    mode: Mode = Mode.LAGWATCH
    allowed_lag: int = 0
    minimum_complete: float = 0.0
    floor_ms: int = DEFAULT_FLOOR_MS
    extensions: Extension = ALL_EXTENSIONS
    min_distance_ms: int = 0
    expire_ms: int = 604_800_000


@dataclass(frozen=True, slots=True)
class Override:
    """Other settings for groups whose full name matches."""

    groups: re.Pattern[str]
    rules: PolicySettings


class Policies:
    """The policies of a cluster. The first override that matches a group applies."""

    def __init__(self, rules: PolicySettings | None = None, overrides: Iterable[Override] = ()) -> None:
        self._overrides = tuple(overrides)
        self._all = (rules or PolicySettings(), *(override.rules for override in self._overrides))
        self._of_group: dict[str, int] = {}

    def of_groups(self, groups: Iterable[str]) -> npt.NDArray[np.uint8]:
        """The policy number of each group, for `column` and `columns`."""
        return np.array([self._number(group) for group in groups], dtype=np.uint8)

    def column(self, numbers: npt.NDArray[np.uint8], name: str) -> npt.NDArray[np.int64]:
        """One setting for rows with these policy numbers."""
        return np.array([getattr(rules, name) for rules in self._all], dtype=np.int64)[numbers]

    def columns(self, numbers: npt.NDArray[np.uint8]) -> Policy:
        """The policy of rows with these policy numbers."""
        shares = np.array([rules.minimum_complete for rules in self._all], dtype=np.float32)
        return Policy(
            self.column(numbers, "allowed_lag"),
            shares[numbers],
            self.column(numbers, "mode").astype(np.uint8),
            self.column(numbers, "floor_ms"),
            self.column(numbers, "extensions").astype(np.uint8),
        )

    def any_enabled(self, what: Extension) -> bool:
        """Whether this extension is enabled for any group."""
        return any(rules.mode == Mode.LAGWATCH and rules.extensions & what for rules in self._all)

    def keep(self, groups: Iterable[str]) -> None:
        """Drop the cached policy numbers of all other groups."""
        kept = set(groups)
        self._of_group = {group: number for group, number in self._of_group.items() if group in kept}

    def _number(self, group: str) -> int:
        number = self._of_group.get(group)
        if number is None:
            matching = (at for at, override in enumerate(self._overrides, 1) if override.groups.fullmatch(group))
            number = self._of_group[group] = next(matching, 0)
        return number
