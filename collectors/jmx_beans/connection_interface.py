"""What a collector needs from its connection to the beans of a JVM.

The JMX gateway and Jolokia are the implementations; tests pass others that respond from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Value = int | float | bool | str | Mapping[str, Any]
BeanAttributes = Mapping[str, Value] | None  # attributes by name; None if the bean does not exist


@dataclass(frozen=True, slots=True)
class BeanQuery:
    """A query for some attributes of one bean."""

    bean: str
    attributes: tuple[str, ...]


class JmxConnection(Protocol):
    """A connection to the beans of one JVM. Every call raises SourceError."""

    def names(self, patterns: Sequence[str]) -> list[list[str]]:
        """The names of the beans that match each pattern, sorted."""

    def attributes(self, beans: Sequence[str]) -> list[list[str]]:
        """The readable attributes of each bean, sorted; none for a bean that does not exist."""

    def read(self, queries: Sequence[BeanQuery]) -> list[BeanAttributes]:
        """The attributes of each query, in order."""

    def close(self) -> None:
        """Close the connection; never raises."""
