"""The types of the catalogue: table, tag, field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa

from lagwatch.catalogue.volume import InfluxDefaults, Volume

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
    """A column that identifies a row. `partition` and `broker` are numbers, all other tags are text."""

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
    meaning: str  # a sentence; its first clause, up to ";" or ":", is the help text of the table's setting
    tags: tuple[Tag, ...]
    fields: tuple[Field, ...]
    volumes: tuple[Volume, ...] = ()  # one per job that writes the table, the one that makes its series first
    influx: InfluxDefaults | None = None  # None: no key under `influxdb.tables`

    @property
    def summary(self) -> str:
        """The first clause of the meaning, in lower case and without a full stop."""
        clause = self.meaning.partition(";")[0].partition(":")[0].rstrip(".")
        return clause[:1].lower() + clause[1:]

    @property
    def has_cluster(self) -> bool:
        """Whether its rows belong to a cluster. Only the rows about the agent do not."""
        return any(tag.name == "cluster" for tag in self.tags)

    @property
    def per_partition(self) -> bool:
        """Whether it has a row for each partition. These tables are nearly all of the bytes."""
        return any(tag.name == "partition" for tag in self.tags)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a batch of this table: all tags but `cluster`, then the fields."""
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
