"""The base class of all sections of the configuration, and the lookup of a section by path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator


class Section(BaseModel):
    """A mapping of the file. Frozen; unknown keys are errors."""

    # validate_default: checks that involve several keys run even when the key is omitted.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_keys(cls, data: Any) -> Any:
        """`journal:` with every line below it commented out is null in YAML: treat it as omitted."""
        if not isinstance(data, dict):
            return data
        kept = {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}
        for key, field in cls.model_fields.items():
            if isinstance(field.default_factory, type) and issubclass(field.default_factory, Section):
                kept.setdefault(key, {})  # validate defaults too: their relative paths start at the file's directory
        return kept


def is_valid(info: ValidationInfo, *names: str) -> bool:
    """Whether these earlier fields passed validation, set or not."""
    return all(name in info.data for name in names)


def is_set(info: ValidationInfo, name: str) -> bool:
    """Whether this earlier field has a value."""
    return info.data.get(name) is not None


def section_in(annotation: Any) -> type[Section] | None:
    """The section type of a field, also when optional or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for arg in get_args(annotation) if (found := section_in(arg))), None)


def section_at(root: type[Section], path: Sequence[str | int]) -> type[Section] | None:
    """The section type at a path such as (`clusters`, 0, `security`); None if there is none."""
    section: type[Section] | None = root
    for key in path:
        if section is None:
            return None
        if isinstance(key, str):
            field = section.model_fields.get(key)
            section = section_in(field.annotation) if field else None
    return section
