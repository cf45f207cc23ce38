"""What a user's own JMX beans add to the catalogue: fields of brokers, and tables whose tags are key properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lagwatch.catalogue.model import Catalogue, Field, Kind, Table, Tag
from lagwatch.catalogue.shared import BROKER_TAG, CLUSTER_TAG


@dataclass(frozen=True, slots=True)
class OwnField:
    """One field. With labels its table is the user's own; without, it belongs to a built-in one."""

    table: str
    name: str
    labels: tuple[str, ...]
    is_text: bool
    meaning: str
    unit: str


def with_own_fields(catalogue: Catalogue, own: Sequence[OwnField]) -> Catalogue:
    """The catalogue with these fields behind its own."""
    tables = {table.name: table for table in catalogue}
    for added in own:
        field = Field(added.name, Kind.TEXT if added.is_text else Kind.FLOAT, added.meaning, added.unit)
        table = tables.get(added.table) or _new_table(added)
        tables[added.table] = replace(table, fields=(*table.fields, field))
    return Catalogue(tuple(tables.values()))


def _new_table(added: OwnField) -> Table:
    labels = tuple(Tag(label, "key property of the bean") for label in added.labels)
    return Table(added.table, "Beans of the user's own, from JMX.", (CLUSTER_TAG, BROKER_TAG, *labels), ())
