"""`${NAME}` in values: filled in from the environment, and never repeated in a message."""

from __future__ import annotations

import re
from collections.abc import Mapping

# `$${` first: it is how a literal `${` is written.
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONLY_REFERENCES = re.compile(r"(?:\$\{[^}]*\})+")


class Expanded(str):
    """A text with at least one variable filled in. `source` is what stands in the file, for messages."""

    __slots__ = ("source",)
    source: str

    @classmethod
    def of(cls, text: str, source: str) -> Expanded:
        """The text as it came out of `source`."""
        made = cls(text)
        made.source = source
        return made

    @property
    def only_references(self) -> bool:
        """Whether the file holds nothing of this value but variable names."""
        return _ONLY_REFERENCES.fullmatch(self.source) is not None


def interpolate(text: str, env: Mapping[str, str]) -> str:
    """Fill in the variables. Raises ValueError naming a variable that is not set."""
    missing: list[str] = []
    references = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal references
        if match["inside"] is None:
            return "${"
        if not match["end"] or not _NAME.fullmatch(match["inside"]):
            raise ValueError("${ is not followed by a variable's name and } (write ${NAME}, or $${ for a literal ${)")
        references += 1
        if match["inside"] not in env:
            missing.append(match["inside"])
        return env.get(match["inside"], "")

    filled = _REFERENCE.sub(fill, text)
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        raise ValueError(f"environment variable {names} is not set (export it where lagwatch is started)")
    return Expanded.of(filled, text) if references else filled


def escape(text: str) -> str:
    """The text as it has to be written in a file to be read back as it is."""
    return text.replace("${", "$${")


def quote(value: object) -> str:
    """A value for a message: in quotes, cut short, and its source instead of what the environment gave."""
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
