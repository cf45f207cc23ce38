"""Look around in any JVM: a connection and what a person typed enter, bean names and values leave."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.jmx_client.parsing import BeanQuery, JmxConnection, Value, is_pattern, names_to_ask
from lagwatch.errors import SourceError


@dataclass(frozen=True, slots=True)
class FoundBean:
    """One attribute of one bean; an item of a composite one is `A.b`. `error` says why there is no value."""

    bean: str
    attribute: str
    value: Value | None
    error: str = ""


def find_beans(connection: JmxConnection, wanted: str) -> list[str]:
    """The beans a person means: a name, a pattern of JMX, or any part of a name. Raises SourceError."""
    if ":" in wanted:
        return connection.names([wanted])[0]
    (everything,) = connection.names(["*:*"])
    part = wanted.lower() if is_pattern(wanted) else f"*{wanted.lower()}*"
    return [name for name in everything if fnmatch.fnmatchcase(name.lower(), part)]


def read_beans(connection: JmxConnection, beans: Sequence[str], attribute: str = "*") -> Iterator[FoundBean]:
    """Attributes of beans, by name or pattern. What cannot be read is told in its place; the rest goes on."""
    told = connection.attributes(beans)
    for bean, attributes in zip(beans, told, strict=True):
        names = [
            name for name in attributes if any(fnmatch.fnmatchcase(name, asked) for asked in names_to_ask(attribute))
        ]
        try:
            answer = connection.read([BeanQuery(bean, tuple(names))])[0] if names else {}
        except SourceError as error:
            yield FoundBean(bean, attribute, None, str(error))
            continue
        for name in names:
            if answer is not None and name in answer:
                yield from _items(bean, name, answer[name], attribute)
            else:
                yield FoundBean(bean, name, None, "cannot be read")


def _items(bean: str, name: str, value: Value, wanted: str) -> Iterator[FoundBean]:
    items = {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, Mapping) else {name: value}
    whole = fnmatch.fnmatchcase(name, wanted)  # a composite asked for as a whole gives all its items
    for key, item in items.items():
        if whole or fnmatch.fnmatchcase(key, wanted):
            yield FoundBean(bean, key, item)
