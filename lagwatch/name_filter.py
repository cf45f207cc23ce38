"""Which topics and groups are watched."""

from __future__ import annotations

import re
from collections.abc import Sequence


class NameFilter:
    """Regular expressions that match whole names: one of `include`, none of `exclude`. Decisions are remembered."""

    def __init__(self, include: Sequence[str] = (".*",), exclude: Sequence[str] = ()) -> None:
        flags = re.DOTALL  # a group id may hold a newline, and ".*" means every group
        self._include = [re.compile(pattern, flags) for pattern in include]
        self._exclude = [re.compile(pattern, flags) for pattern in exclude]
        self._decided: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        decided = self._decided.get(name)
        if decided is None:
            decided = any(p.fullmatch(name) for p in self._include) and not any(
                p.fullmatch(name) for p in self._exclude
            )
            if len(self._decided) > 200_000:  # names come and go; nothing grows for ever
                self._decided.clear()
            self._decided[name] = decided
        return decided
