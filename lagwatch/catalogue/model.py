"""What a table, a tag and a field are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa

SCHEMA_VERSION = 1


class Kind(Enum):
    """How a value is stored."""

    INT = "int"
    FLOAT = "float"
    SECONDS = "seconds"  # float32, rounded to 0.1: compresses to a quarter of a float64
    BOOL = "bool"
    TEXT = "text"  # dictionary-encoded

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of this kind."""
        return _ARROW[self]


_ARROW = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.SECONDS: pa.float32(),
    Kind.BOOL: pa.bool_(),
    Kind.TEXT: pa.dictionary(pa.int32(), pa.string()),
}


@dataclass(frozen=True, slots=True)
class Tag:
    """What a row is about. `partition` and `broker` are numbers, the rest is text."""

    name: str
    meaning: str
    number: bool = False

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of this tag's column."""
        return pa.int32() if self.number else Kind.TEXT.arrow


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a row."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """One kind of row.

    `cluster` is a tag of nearly every table but not a column: a batch holds rows of one cluster and carries its name.
    """

    name: str
    meaning: str
    tags: tuple[Tag, ...]
    fields: tuple[Field, ...]

    @property
    def has_cluster(self) -> bool:
        """Whether its rows belong to a cluster (all but the agent's own do)."""
        return any(tag.name == "cluster" for tag in self.tags)

    @property
    def per_partition(self) -> bool:
        """Whether it has a row for each partition: these tables make up nearly all the bytes."""
        return any(tag.name == "partition" for tag in self.tags)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a batch of this table: the tags without `cluster`, then the fields."""
        tags = [pa.field(tag.name, tag.arrow, nullable=False) for tag in self.tags if tag.name != "cluster"]
        return pa.schema(tags + [pa.field(field.name, field.kind.arrow) for field in self.fields])


class Catalogue:
    """The tables by name."""

    def __init__(self, tables: tuple[Table, ...]) -> None:
        self._tables: Mapping[str, Table] = {table.name: table for table in tables}

    def __getitem__(self, name: str) -> Table:
        return self._tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())
