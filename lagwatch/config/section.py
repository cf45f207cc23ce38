"""What all sections of the configuration share, and how they find each other by path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator


class Section(BaseModel):
    """A mapping of the file: frozen, with every key known."""

    # validate_default: what a key needs from its neighbours is checked also where the key is left out.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_left_out(cls, data: Any) -> Any:
        """`journal:` with every line under it commented out is null to YAML, and means the defaults."""
        if not isinstance(data, dict):
            return data
        kept = {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}
        for key, field in cls.model_fields.items():
            if isinstance(field.default_factory, type) and issubclass(field.default_factory, Section):
                kept.setdefault(key, {})  # read like the rest, so that its paths too start where the file is
        return kept


def is_known(info: ValidationInfo, *names: str) -> bool:
    """Whether these earlier fields were read without a mistake, given or not."""
    return all(name in info.data for name in names)


def is_given(info: ValidationInfo, name: str) -> bool:
    """Whether this earlier field has a value."""
    return info.data.get(name) is not None


def section_in(annotation: Any) -> type[Section] | None:
    """The section a field holds, be it optional or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for arg in get_args(annotation) if (found := section_in(arg))), None)


def section_at(root: type[Section], path: Sequence[str | int]) -> type[Section] | None:
    """The section at `clusters`, 0, `security`; None where there is none."""
    section: type[Section] | None = root
    for key in path:
        if section is None:
            return None
        if isinstance(key, str):
            field = section.model_fields.get(key)
            section = section_in(field.annotation) if field else None
    return section
