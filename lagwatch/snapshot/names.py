"""Selects groups and topics by name or pattern, and a cluster by name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lagwatch.errors import LagwatchError
from lagwatch.text import one_line


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Names, each exact or a pattern with * ? and [...]. No names match everything."""

    names: tuple[str, ...] = ()

    def __call__(self, name: str) -> bool:
        return not self.names or any(_matches(wanted, name) for wanted in self.names)

    def not_among(self, names: Iterable[str]) -> list[str]:
        """The patterns that match none of these names."""
        existing = list(names)
        return [wanted for wanted in self.names if not any(_matches(wanted, name) for name in existing)]

    def patterns(self) -> list[re.Pattern[str]]:
        """Regular expressions that match whole names, to poll a cluster for only these."""
        return [re.compile(f"{re.escape(name)}|{fnmatch.translate(name)}") for name in self.names]


def _matches(wanted: str, name: str) -> bool:
    return wanted == name or fnmatch.fnmatchcase(name, wanted)  # a name may contain a *


def pick_cluster(names: Collection[str], name: str | None, where: str) -> str:
    """The given name, or the only one there is. Raises LagwatchError with the existing names."""
    there_are = f"there are: {', '.join(names)}" if names else "there are none yet"
    if name is not None and name not in names:
        raise LagwatchError(f'{where}: no cluster "{one_line(name)}" ({there_are})')
    if name is None and len(names) != 1:
        raise LagwatchError(f"{where}: name a cluster with --cluster ({there_are})")
    return name if name is not None else next(iter(names))
