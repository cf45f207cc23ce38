"""Parsing what a JVM prints about its beans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.jmx_beans.parsing import (
    as_number,
    attribute_value,
    key_properties,
    parse_attributes,
    parse_info,
    parse_names,
    parse_value,
    warns_on_missing_attribute,
)

MEMORY = (
    "[HeapMemoryUsage = javax.management.openmbean.CompositeDataSupport(compositeType=javax.management.openmbean."
    "CompositeType(name=java.lang.management.MemoryUsage,items=((itemName=committed,itemType=x),(itemName=used,"
    "itemType=x))),contents={committed=259522560, init=268435456, max=-1, used=97255432}), Verbose = false]"
)


@pytest.mark.parametrize(
    ("name", "properties", "why"),
    [
        (
            "kafka.server:type=ReplicaManager,name=LeaderCount",
            {"type": "ReplicaManager", "name": "LeaderCount"},
            "plain",
        ),
        (
            'kafka.log:logDirectory="/a,b=c"',
            {"logDirectory": "/a,b=c"},
            "a quoted value may hold commas and equal signs",
        ),
        (r'd:k="say \"hi\"\n"', {"k": 'say "hi"\n'}, "escapes of quoted values"),
        ("d:a=,b=2", {"a": "", "b": "2"}, "an empty value"),
    ],
)
def test_key_properties_of_a_name(name: str, properties: dict[str, str], why: str) -> None:
    assert key_properties(name) == properties, why


def test_attributes_are_found_by_their_names() -> None:
    text = "[Count = 5, Mean = 0.25, EventType = a, b, RateUnit = SECONDS]"
    names = ["Count", "Missing", "Mean", "EventType", "RateUnit"]
    assert parse_attributes(text, names) == {"Count": 5, "Mean": 0.25, "EventType": "a, b", "RateUnit": "SECONDS"}


def test_the_order_of_the_answer_does_not_matter() -> None:
    assert parse_attributes("[b = 2, a = 1]", ["a", "b"]) == {"a": 1, "b": 2}


def test_a_bean_without_any_of_the_attributes_has_an_empty_answer() -> None:
    assert parse_attributes("[]", ["Value"]) == {}


def test_a_bean_that_is_not_there_has_no_answer() -> None:
    assert parse_attributes("javax.management.InstanceNotFoundException: a:b=c", ["Value"]) is None


def test_items_of_a_composite_are_picked_by_a_dot() -> None:
    answer = parse_attributes(MEMORY, ["HeapMemoryUsage", "Verbose"])
    assert attribute_value(answer, "HeapMemoryUsage.used") == 97255432
    assert attribute_value(answer, "HeapMemoryUsage.nothing") is None
    assert attribute_value(answer, "Verbose") is False
    assert attribute_value(None, "Verbose") is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("-1", -1), ("45.0", 45.0), ("1.794953239221E12", 1794953239221.0), ("NaN", None), ("-Infinity", None),
     ("Infinity", None), ("leader", None), ("true", 1)],
)  # fmt: skip
def test_values_that_are_not_finite_are_none(text: str, number: float | None) -> None:
    assert as_number(parse_value(text)) == number


def test_a_whole_number_stays_exact() -> None:
    assert parse_value("9223372036854775807") == 9223372036854775807


def test_names_are_separated_even_if_a_quoted_one_has_a_comma() -> None:
    text = '[d:k="/x, y",a=1, d:a=2,b=3]'
    assert parse_names(text) == ["d:a=2,b=3", 'd:k="/x, y",a=1']
    assert parse_names("[]") == []


_NAME = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=5)


@given(st.dictionaries(_NAME, st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=6))
def test_numbers_come_back_as_the_jvm_printed_them(values: dict[str, float]) -> None:
    text = f"[{', '.join(f'{name} = {value}' for name, value in values.items())}]"
    assert parse_attributes(text, list(values)) == values


def test_readable_attributes_are_found_in_the_description_of_a_bean() -> None:
    plain = (
        "javax.management.MBeanAttributeInfo[description=a, b, name={}, type=long, {}, descriptor={{type(name=x), y}}]"
    )
    attributes = [
        plain.format(name, access) for name, access in [("a-b.p99", "read-only"), ("Verbose", "read/write, isIs")]
    ]
    hidden = plain.format("Hidden", "write-only")
    opened = "javax.management.openmbean.OpenMBeanAttributeInfoSupport(name=Open,openType=x,default=null)"
    operation = "javax.management.MBeanOperationInfo[description=, name=gc, returnType=void, signature=[]]"
    text = f"javax.management.MBeanInfo[description=x, attributes=[{', '.join([*attributes, hidden, opened])}], {operation}]"
    assert parse_info(text) == ["Open", "Verbose", "a-b.p99"]
    assert parse_info("javax.management.InstanceNotFoundException: a:b=c") == []


@pytest.mark.parametrize(
    ("bean", "logs"),
    [
        ("kafka.server:type=raft-metrics", True),
        ("kafka.server:type=socket-server-metrics,listener=A,networkProcessor=1", True),
        ("kafka.server:type=ReplicaManager,name=LeaderCount", False),
        ("java.lang:type=Memory", False),
    ],
)
def test_beans_that_fill_a_brokers_log_are_recognised_by_name(bean: str, logs: bool) -> None:
    assert warns_on_missing_attribute(bean) is logs
