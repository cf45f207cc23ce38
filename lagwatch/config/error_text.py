"""What pydantic found wrong, in words an operator can act on. Values are quoted only where they cannot be secrets."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic_core import ErrorDetails

from lagwatch.config.interpolation import quote
from lagwatch.config.section import Section, section_at, section_in
from lagwatch.config.settings import Settings
from lagwatch.config.yaml_tree import Path, Problem, Tree, Unknown, name_of


def explain(error: ErrorDetails, tree: Tree) -> Problem | None:
    """The problem at its place; None when it was reported already."""
    path: Path = error["loc"]
    if isinstance(error["input"], Unknown):
        return None
    if error["type"] == "too_short" and error["input"]:  # pydantic counts the good entries; the bad ones are reported
        return None
    if error["type"] == "extra_forbidden":
        place = tree.key_places.get(path) or tree.place_of(path)
        return Problem(place, path[:-1], _unknown_key(path, error["input"]))
    return Problem(tree.place_of(path), path, _text(error))


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
    """The key is named only if it has a value: `{hunter2}` is, to YAML, a key without one."""
    section = section_at(Settings, path[:-1])
    known = list(section.model_fields) if section else []
    key = str(path[-1])
    name = name_of(key) if value is not None else "this key"
    if name == "this key":
        return f"this key is not known (known: {', '.join(known)})"
    # Exactly the name of a key elsewhere is more likely a matter of indentation than of spelling.
    elsewhere = [where.rpartition(".")[0] for where in _homes(Settings, "") if where.rpartition(".")[2] == key]
    if elsewhere:
        return f"{name} is not known here (it belongs to {elsewhere[0] or 'the top of the file'})"
    near = difflib.get_close_matches(key.lower().replace("-", "_"), known, 1)
    if near:
        return f"{name} is not known (did you mean {near[0]}?)"
    return f"{name} is not known (known: {', '.join(known)})"


def _homes(section: type[Section], prefix: str) -> Iterator[str]:
    for key, field in section.model_fields.items():
        yield prefix + key
        inner = section_in(field.annotation)
        if inner:
            yield from _homes(inner, f"{prefix}{key}.")
