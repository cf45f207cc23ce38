"""Adds the fields and tables of the user's JMX beans to the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lagwatch.catalogue.model import Catalogue, Field, Kind, Table, Tag
from lagwatch.catalogue.shared import BROKER_TAG, CLUSTER_TAG


@dataclass(frozen=True, slots=True)
class UserField:
    """One field. With labels it belongs to a table of the user; without, to a built-in one."""

    table: str
    name: str
    labels: tuple[str, ...]
    is_text: bool
    meaning: str
    unit: str


def with_user_fields(catalogue: Catalogue, user_fields: Sequence[UserField]) -> Catalogue:
    """The catalogue with these fields appended to their tables."""
    tables = {table.name: table for table in catalogue}
    for added in user_fields:
        field = Field(added.name, Kind.TEXT if added.is_text else Kind.FLOAT, added.meaning, added.unit)
        table = tables.get(added.table) or _new_table(added)
        tables[added.table] = replace(table, fields=(*table.fields, field))
    return Catalogue(tuple(tables.values()))


def _new_table(added: UserField) -> Table:
    labels = tuple(Tag(label, "Key property of the bean.") for label in added.labels)
    return Table(added.table, "JMX beans of the user.", (CLUSTER_TAG, BROKER_TAG, *labels), ())
