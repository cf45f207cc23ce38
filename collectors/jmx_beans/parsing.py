"""Parses bean names and the text form of JMX attributes to plain values. Pure.

Each query of an endpoint returns one string from the JVM to Python, so values are parsed from `AttributeList.toString()`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from collectors.jmx_beans.connection_interface import BeanAttributes, Value

_NUMBER = re.compile(r"[-+]?\d+")
_PROPERTY = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)(?:,|$)')
_CONTENTS = re.compile(r"contents=\{(.*)\}\)$", re.DOTALL)
_NAME = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^",]|,(?! ))+')
_ATTRIBUTE = re.compile(
    r"MBeanAttributeInfo\[description=.*?, name=([^,]+), type=[^,]+, (?:read-only|read/write)"
    r"|OpenMBeanAttributeInfoSupport\(name=([^,]+),"
)
_ITEM = re.compile(r"(?:^|, )([\w .-]+)=")


def key_properties(bean: str) -> dict[str, str]:
    """The key properties of a bean's name, with values unquoted."""
    _, _, keys = bean.partition(":")
    return {name: _unquote(value) for name, value in _PROPERTY.findall(keys)}


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])
    return value


def parse_names(text: str) -> list[str]:
    """Parse a Java set of bean names, `[a:b=c, a:b="d, e"]`; unquoted, a comma and a blank only separate names."""
    return sorted(name.strip() for name in _NAME.findall(text[1:-1])) if text.startswith("[") else []


def parse_info(text: str) -> list[str]:
    """Parse the readable attributes from `MBeanInfo.toString()`; none if the bean does not exist."""
    return (
        sorted(plain or opened for plain, opened in _ATTRIBUTE.findall(text))
        if text.startswith("javax.management.MBeanInfo")
        else []
    )


def is_pattern(bean: str) -> bool:
    """Whether a name may match several beans."""
    return "*" in bean or "?" in bean


def parse_attributes(text: str, attributes: Sequence[str]) -> BeanAttributes:
    """Parse an attribute list, `[Count = 5, Mean = 0.2]`, by name.

    The caller names the attributes, so a value may contain commas; missing attributes are left out.
    """
    if not text.startswith("["):
        return None  # the text of an exception: the bean does not exist or may not be read
    listing = f", {text[1:-1]}"
    marks = sorted((at, name) for name in attributes if (at := listing.find(f", {name} = ")) >= 0)
    ends = [*(at for at, _ in marks), len(listing)][1:]
    return {name: parse_value(listing[at + len(name) + 5 : end]) for (at, name), end in zip(marks, ends, strict=True)}


def parse_value(text: str) -> Value:
    """Parse a value; anything but a number, boolean or composite stays text."""
    if _NUMBER.fullmatch(text):
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    composite = _CONTENTS.search(text) if text.startswith("javax.management.openmbean.CompositeData") else None
    if composite:
        return _items(composite[1])
    try:
        return float(text.replace("Infinity", "inf"))
    except ValueError:
        return text


def _items(contents: str) -> dict[str, Value]:
    marks = list(_ITEM.finditer(contents))
    ends = [*(mark.start() for mark in marks), len(contents)][1:]
    return {mark[1]: parse_value(contents[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)}


def attribute_value(answer: BeanAttributes, attribute: str) -> Value | None:
    """One attribute of a bean, or one item of a composite attribute."""
    if answer is None:
        return None
    if attribute in answer:
        return answer[attribute]
    outer, dot, inner = attribute.partition(".")
    whole = answer.get(outer) if dot else None
    return whole.get(inner) if isinstance(whole, Mapping) else None


def as_number(value: Value | None) -> int | float | None:
    """The value as a finite number; None for text, NaN and infinity, by which Kafka means "no value"."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else None


def attributes_to_read(attribute: str) -> tuple[str, ...]:
    """The attributes to query for `HeapMemoryUsage.used`: that name, as a name may contain a dot, and `HeapMemoryUsage`."""
    outer, dot, _ = attribute.partition(".")
    return (attribute, outer) if dot else (attribute,)


def warns_on_missing_attribute(bean: str) -> bool:
    """Whether a broker logs a warning if this bean is queried for an attribute it lacks.

    Kafka's beans with many attributes do (measured on 3.9 and 4.x); they have no `name` property.
    """
    return bean.startswith("kafka.") and "name" not in key_properties(bean)
