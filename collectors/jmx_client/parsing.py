"""JMX as text and back: bean names and what a JVM prints for attributes enter, plain values leave. Pure.

One string an endpoint crosses from the JVM to Python, so values are read from the text `AttributeList` makes of itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Value = int | float | bool | str | Mapping[str, Any]
BeanAnswer = Mapping[str, Value] | None  # attributes by name; None when there is no such bean

_NUMBER = re.compile(r"[-+]?\d+")
_PROPERTY = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)(?:,|$)')
_CONTENTS = re.compile(r"contents=\{(.*)\}\)$", re.DOTALL)
_NAME = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^",]|,(?! ))+')
_ATTRIBUTE = re.compile(
    r"MBeanAttributeInfo\[description=.*?, name=([^,]+), type=[^,]+, (?:read-only|read/write)"
    r"|OpenMBeanAttributeInfoSupport\(name=([^,]+),"
)
_ITEM = re.compile(r"(?:^|, )([\w .-]+)=")


@dataclass(frozen=True, slots=True)
class BeanQuery:
    """Some attributes of one bean."""

    bean: str
    attributes: tuple[str, ...]


class JmxConnection(Protocol):
    """A way to the beans of one JVM. Every call raises SourceError with the reason in words."""

    def names(self, patterns: Sequence[str]) -> list[list[str]]:
        """For each pattern the beans whose name matches, sorted."""

    def attributes(self, beans: Sequence[str]) -> list[list[str]]:
        """For each bean the attributes that can be read, sorted; none for one that is not there."""

    def read(self, questions: Sequence[BeanQuery]) -> list[BeanAnswer]:
        """One answer for each question, in order."""

    def close(self) -> None:
        """Let go of it; never raises."""


def properties_of(bean: str) -> dict[str, str]:
    """The key properties of a bean's name; quotes around a value are taken off."""
    _, _, keys = bean.partition(":")
    return {name: _unquoted(value) for name, value in _PROPERTY.findall(keys)}


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])
    return value


def parse_names(text: str) -> list[str]:
    """What the JVM prints for a set of bean names, `[a:b=c, a:b="d, e"]`; a comma and a blank are only between names."""
    return sorted(name.strip() for name in _NAME.findall(text[1:-1])) if text.startswith("[") else []


def parse_info(text: str) -> list[str]:
    """The attributes that can be read, in what the JVM prints for a bean's information; none when there is no bean."""
    return (
        sorted(plain or opened for plain, opened in _ATTRIBUTE.findall(text))
        if text.startswith("javax.management.MBeanInfo")
        else []
    )


def is_pattern(bean: str) -> bool:
    """Whether a name may stand for several beans."""
    return "*" in bean or "?" in bean


def parse_attributes(text: str, asked: Sequence[str]) -> BeanAnswer:
    """What the JVM prints for a list of attributes, `[Count = 5, Mean = 0.2]`, by name.

    The names asked are known, so a value may hold commas; attributes that are absent are left out.
    """
    if not text.startswith("["):
        return None  # an exception in its own words: the bean is not there, or may not be read
    told = f", {text[1:-1]}"
    marks = sorted((at, name) for name in asked if (at := told.find(f", {name} = ")) >= 0)
    ends = [*(at for at, _ in marks), len(told)][1:]
    return {name: parse_value(told[at + len(name) + 5 : end]) for (at, name), end in zip(marks, ends, strict=True)}


def parse_value(text: str) -> Value:
    """A value as the JVM prints it; what is no number, truth or composite stays text."""
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


def pick(answer: BeanAnswer, attribute: str) -> Value | None:
    """One attribute of an answer, or one item of a composite one."""
    if answer is None:
        return None
    if attribute in answer:
        return answer[attribute]
    outer, dot, inner = attribute.partition(".")
    whole = answer.get(outer) if dot else None
    return whole.get(inner) if isinstance(whole, Mapping) else None


def number_in(value: Value | None) -> int | float | None:
    """The number, where it is one: NaN and infinity say that there is none."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else None


def names_to_ask(attribute: str) -> tuple[str, ...]:
    """What to ask for: `HeapMemoryUsage` for its item `HeapMemoryUsage.used`; but a name may also hold a dot itself."""
    outer, dot, _ = attribute.partition(".")
    return (attribute, outer) if dot else (attribute,)


def logs_what_it_lacks(bean: str) -> bool:
    """Whether a broker would write a warning to its log when such a bean is asked for an attribute it does not have.

    Kafka's own beans that hold many attributes in one do (measured on 3.9 and 4.x); they have no `name`.
    """
    return bean.startswith("kafka.") and "name" not in properties_of(bean)
