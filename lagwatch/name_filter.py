"""Selects the topics and groups to watch, by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence


class NameFilter:
    """Accepts names that fully match one of `include` and none of `exclude`. Results are cached."""

    def __init__(self, include: Sequence[str] = (".*",), exclude: Sequence[str] = ()) -> None:
        flags = re.DOTALL  # a group id may contain a newline, and ".*" means every group
        self._include = [re.compile(pattern, flags) for pattern in include]
        self._exclude = [re.compile(pattern, flags) for pattern in exclude]
        self._cache: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        accepted = self._cache.get(name)
        if accepted is None:
            accepted = any(p.fullmatch(name) for p in self._include) and not any(
                p.fullmatch(name) for p in self._exclude
            )
            if len(self._cache) > 200_000:  # bounds the memory: names come and go
                self._cache.clear()
            self._cache[name] = accepted
        return accepted
