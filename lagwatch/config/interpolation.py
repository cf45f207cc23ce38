"""Replaces `${NAME}` in values by environment variables, and keeps their values out of messages."""

from __future__ import annotations

import re
from collections.abc import Mapping

# `$${`, an escaped `${`, must match first.
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONLY_REFERENCES = re.compile(r"(?:\$\{[^}]*\})+")


class Expanded(str):
    """Text with at least one variable replaced. `source` is the text of the file, for messages."""

    __slots__ = ("source",)
    source: str

    @classmethod
    def of(cls, text: str, source: str) -> Expanded:
        """Text that resulted from `source`."""
        made = cls(text)
        made.source = source
        return made

    @property
    def only_references(self) -> bool:
        """Whether the text of the file consists of references only."""
        return _ONLY_REFERENCES.fullmatch(self.source) is not None


def interpolate(text: str, env: Mapping[str, str]) -> str:
    """Replace the variables. Raises ValueError with the names of those that are not set."""
    missing: list[str] = []
    references = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal references
        if match["inside"] is None:
            return "${"
        if not match["end"] or not _NAME.fullmatch(match["inside"]):
            raise ValueError("${ must be followed by a variable name and } (write ${NAME}, or $${ for a literal ${)")
        references += 1
        if match["inside"] not in env:
            missing.append(match["inside"])
        return env.get(match["inside"], "")

    filled = _REFERENCE.sub(replace, text)
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        raise ValueError(f"environment variable {names} is not set (export it before starting lagwatch)")
    return Expanded.of(filled, text) if references else filled


def escape(text: str) -> str:
    """The text escaped for a configuration file."""
    return text.replace("${", "$${")


def quote(value: object) -> str:
    """A value for a message: quoted, truncated, and with its source instead of the value of a variable."""
    if isinstance(value, Expanded):
        value = value.source
    if isinstance(value, str):
        if "@" in value or len(value) > 200:  # user:password@host; a whole file in one value
            return "this value"
        return f'"{value if len(value) <= 60 else value[:57] + "..."}"'.replace("\n", "\\n")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return "a list" if isinstance(value, list | tuple) else "a section" if isinstance(value, dict) else "this value"
