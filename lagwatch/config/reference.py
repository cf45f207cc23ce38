"""Renders the settings: the annotated reference of every key, and the effective settings with secrets masked."""

from __future__ import annotations

from typing import Any, get_origin

import yaml
from pydantic.fields import FieldInfo

from lagwatch.config.interpolation import escape
from lagwatch.config.section import Section, section_in
from lagwatch.config.settings import Settings

_COMMENT_COLUMN = 54  # wide enough for all but the longest examples
_HEAD = """\
# lagwatch configuration: every key with its default. A line that starts with # is an example of an optional key.
# Durations: 30s, 5m, 1h30m. Sizes: 512MiB, 2GiB. A key without a value has its default.
# ${NAME} in a value is an environment variable, $${ a literal ${. Secrets: as ${NAME}, or in a separate file.
"""


def render_example() -> str:
    """The reference configuration. It loads, and contains only defaults and the examples of required keys."""
    return _HEAD + "\n".join(_section_lines(Settings, 0, commented=False)) + "\n"


def _section_lines(section: type[Section], depth: int, *, commented: bool) -> list[str]:
    lines: list[str] = []
    for key, field in section.model_fields.items():
        inner = section_in(field.annotation)
        if inner is None:
            example = bool(field.examples) and not field.is_required()
            value = field.examples[0] if field.examples else _default(section, key, field)
            lines.append(_line(f"{key}: {_flow(value)}", depth, field, commented=commented or example))
            continue
        is_list = get_origin(field.annotation) is tuple
        absent = commented or (not field.is_required() and field.default_factory is None)
        if depth == 0 and lines:
            lines.append("")
        lines.append(_line(f"{key}:", depth, field, commented=absent))
        if is_list:
            first, *rest = _section_lines(inner, depth + 2, commented=absent)
            indent, mark = "  " * (depth + 2), "# " if absent else ""
            lines += [f"{indent[:-2]}{mark}- {first.removeprefix(indent + mark)}", *rest]
        else:
            lines += _section_lines(inner, depth + 1, commented=absent)
    return lines


def _line(left: str, depth: int, field: FieldInfo, *, commented: bool) -> str:
    start = "  " * depth + ("# " if commented else "") + left
    return f"{start:<{_COMMENT_COLUMN}}  # {field.description}"


def _default(section: type[Section], key: str, field: FieldInfo) -> Any:
    alone = section.model_construct(**{key: field.get_default()})
    return alone.model_dump(mode="json", include={key})[key]


def _flow(value: Any) -> str:
    """A value on one line, in YAML flow style."""
    return str(yaml.safe_dump([value], default_flow_style=True, width=1000, allow_unicode=True)).strip()[1:-1]


def effective(settings: Settings) -> dict[str, Any]:
    """Every setting that has a value, defaults included, as plain values; secrets are masked."""
    return settings.model_dump(mode="json", exclude_none=True)


def render_yaml(settings: Settings) -> str:
    """The effective settings as a file that, but for the masked secrets, could be loaded again."""
    return str(yaml.safe_dump(_escaped(effective(settings)), sort_keys=False, allow_unicode=True, width=1000))


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return escape(value) if isinstance(value, str) else value
