"""Finds and reads beans of any JVM by name, pattern or part of a name, for `lagwatch jmx`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.jmx_beans.connection_interface import BeanQuery, JmxConnection, Value
from collectors.jmx_beans.parsing import attributes_to_read, is_pattern
from lagwatch.errors import SourceError


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """One attribute of one bean; an item of a composite attribute is `A.b`. `error` is why there is no value."""

    bean: str
    attribute: str
    value: Value | None
    error: str = ""


def find_beans(connection: JmxConnection, pattern: str) -> list[str]:
    """The beans that match a name, a JMX pattern or any part of a name. Raises SourceError."""
    if ":" in pattern:
        return connection.names([pattern])[0]
    (everything,) = connection.names(["*:*"])
    part = pattern.lower() if is_pattern(pattern) else f"*{pattern.lower()}*"
    return [name for name in everything if fnmatch.fnmatchcase(name.lower(), part)]


def read_beans(connection: JmxConnection, beans: Sequence[str], attribute: str = "*") -> Iterator[AttributeValue]:
    """Attributes of beans, by name or pattern. An attribute that cannot be read yields its error."""
    attribute_names = connection.attributes(beans)
    for bean, attributes in zip(beans, attribute_names, strict=True):
        names = [
            name
            for name in attributes
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in attributes_to_read(attribute))
        ]
        try:
            answer = connection.read([BeanQuery(bean, tuple(names))])[0] if names else {}
        except SourceError as error:
            yield AttributeValue(bean, attribute, None, str(error))
            continue
        for name in names:
            if answer is not None and name in answer:
                yield from _items(bean, name, answer[name], attribute)
            else:
                yield AttributeValue(bean, name, None, "cannot be read")


def _items(bean: str, name: str, value: Value, pattern: str) -> Iterator[AttributeValue]:
    items = {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, Mapping) else {name: value}
    whole = fnmatch.fnmatchcase(name, pattern)  # a pattern that matches a composite yields all its items
    for key, item in items.items():
        if whole or fnmatch.fnmatchcase(key, pattern):
            yield AttributeValue(bean, key, item)
