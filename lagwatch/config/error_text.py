"""Translates pydantic errors into messages an operator can act on. Values that may be secrets are not quoted."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic_core import ErrorDetails

from lagwatch.config.interpolation import quote
from lagwatch.config.section import Section, section_at, section_in
from lagwatch.config.settings import Settings
from lagwatch.config.yaml_tree import Path, Problem, Tree, Unreadable, quote_key


def describe_error(error: ErrorDetails, tree: Tree) -> Problem | None:
    """The problem with its position; None if it was already reported."""
    path: Path = error["loc"]
    if isinstance(error["input"], Unreadable):
        return None
    if (
        error["type"] == "too_short" and error["input"]
    ):  # pydantic counts the valid entries; the others have their own errors
        return None
    if error["type"] == "extra_forbidden":
        position = tree.key_positions.get(path) or tree.position_of(path)
        return Problem(position, path[:-1], _unknown_key(path, error["input"]))
    return Problem(tree.position_of(path), path, _text(error))


def _text(error: ErrorDetails) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "value_error":
            return str(context["error"])
        case "missing":
            return f"is missing ({_description(error['loc'])})"
        case "literal_error":
            return f"{quote(error['input'])} is not one of {context['expected'].replace(chr(39), '')}"
        case "model_type" | "model_attributes_type":
            return "must be a section of keys and values"
        case "tuple_type":
            return "must be a list, such as [a, b]"
        case "too_short":
            return "needs at least one entry"
    return error["msg"][:1].lower() + error["msg"][1:]


def _description(path: Path) -> str:
    section = section_at(Settings, path[:-1])
    field = section.model_fields.get(str(path[-1])) if section else None
    return (field.description if field else None) or "it has no default"


def _unknown_key(path: Path, value: object) -> str:
    """The key is quoted only if it has a value: `{hunter2}` is a key without a value in YAML."""
    section = section_at(Settings, path[:-1])
    known = list(section.model_fields) if section else []
    key = str(path[-1])
    name = quote_key(key) if value is not None else "this key"
    if name == "this key":
        return f"unknown key (accepted: {', '.join(known)})"
    # The exact name of a key elsewhere is more likely wrong indentation than a typo.
    elsewhere = [where.rpartition(".")[0] for where in _key_paths(Settings, "") if where.rpartition(".")[2] == key]
    if elsewhere:
        return f"unknown key {name} (it belongs to {elsewhere[0] or 'the top level'})"
    near = difflib.get_close_matches(key.lower().replace("-", "_"), known, 1)
    if near:
        return f"unknown key {name} (did you mean {near[0]}?)"
    return f"unknown key {name} (accepted: {', '.join(known)})"


def _key_paths(section: type[Section], prefix: str) -> Iterator[str]:
    for key, field in section.model_fields.items():
        yield prefix + key
        inner = section_in(field.annotation)
        if inner:
            yield from _key_paths(inner, f"{prefix}{key}.")
