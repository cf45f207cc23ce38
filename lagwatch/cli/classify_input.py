"""Reads and checks the JSON lines of `lagwatch classify`. A `BadLineError` says what is wrong and where in the line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagwatch.windows.build import WindowRow

_INT64 = range(-(2**63), 2**63)
_COUNT = range(2**63)
_PARTITION = range(2**20)  # a partition key has 20 bits for it
_COUNT_OF_PARTITIONS = range(1, 2**20 + 1)
_SECONDS = range(-(2**52), 2**52)  # leaves room for ms, and for a difference
_SLOTS = range(1, 2**15)
_SLOT_FIELDS = (("offset", _INT64), ("order", _INT64), ("timestamp", _INT64))

# The fields of each event of a history, besides its type and, for most, a topic.
_EVENTS: Mapping[str, Mapping[str, range | None]] = {
    "broker": {"partition": _PARTITION, "partition_count": _COUNT_OF_PARTITIONS, "offset": _INT64},
    "commit": {"partition": _PARTITION, "offset": _INT64, "order": _INT64, "timestamp": _INT64},
    "owner": {"partition": _PARTITION, "owner": None, "client_id": None},
    "clear_owners": {},
    "delete_group": {},
    "delete_topic": {},
}
_WITHOUT_TOPIC = ("clear_owners", "delete_group")


class BadLineError(Exception):
    """A line that cannot be evaluated."""


@dataclass(frozen=True, slots=True)
class ClassifySettings:
    """The settings of a line."""

    now_s: int
    allowed_lag: int
    minimum_complete: float


@dataclass(frozen=True, slots=True)
class Window(WindowRow):
    """The window of one partition, with its owner."""

    owner: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The partitions of one group with topic and number, or None when the group does not exist."""

    partitions: Sequence[tuple[str, int, Window]] | None


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """The events of a group, in order of arrival."""

    intervals: int
    min_distance_s: int
    expire_group_s: int
    events: Sequence[Mapping[str, Any]]


def read_object(line: bytes) -> dict[str, Any]:
    """The object of a line."""
    try:
        found = json.loads(line)
    except ValueError as error:  # not JSON, or not UTF-8
        raise BadLineError(f"not JSON: {error}") from None
    except RecursionError:
        raise BadLineError("not JSON: nested too deeply") from None
    if not isinstance(found, dict):
        raise BadLineError(f"{_shown(found)} is not an object")
    return found


def read_settings(data: Mapping[str, Any]) -> ClassifySettings:
    """The settings of a line, with Burrow's defaults."""
    complete = data.get("minimum_complete", 0.0)
    if type(complete) not in (int, float) or not 0 <= complete <= 1:
        raise BadLineError(f"minimum_complete: {_shown(complete)} is not a share (0 to 1)")
    allowed = _number(data, "allowed_lag", _COUNT) if "allowed_lag" in data else 0
    return ClassifySettings(_number(data, "now", _SECONDS), allowed, float(complete))


def read_window(data: Any, where: str = "") -> Window:
    """One partition."""
    _expect(isinstance(data, dict), where.rstrip(".") or "line", data, "an object")
    slots, ends = _list(data, "offsets", where), _list(data, "broker_offsets", where)
    filled = [slot for slot in slots if slot is not None]
    empty = len(slots) - len(filled)
    if any(slot is not None for slot in slots[:empty]):
        raise BadLineError(f"{where}offsets: empty slots (null) must come before filled ones")
    _expect(len(slots) in range(2**15), f"{where}offsets", len(slots), "a number of slots that can be evaluated")
    for at, slot in enumerate(filled, empty):
        _check_slot(slot, f"{where}offsets[{at}]")
    if not _all_in(ends, _INT64):
        at = next(at for at, end in enumerate(ends) if not _all_in([end], _INT64))
        raise BadLineError(f"{where}broker_offsets[{at}]: {_shown(ends[at])} is not a whole number of 64 bits")
    owner = {name: data[name] for name in ("owner", "client_id") if data.get(name)}
    for name, text in owner.items():
        _expect(isinstance(text, str), f"{where}{name}", text, "text")
    return Window(len(slots), filled, ends, _number(data, "current_lag", _COUNT, where), owner)


def read_group(data: Mapping[str, Any]) -> GroupHistory:
    """One group with its partitions, the topics by name."""
    if data.get("not_found") is True:
        return GroupHistory(None)
    topics = data.get("topics")
    if not isinstance(topics, dict):
        raise BadLineError(f"topics: {_shown(topics)} is not an object of topics")
    return GroupHistory(
        [
            (topic, number, read_window(partition, f"topics.{topic}[{number}]."))
            for topic in sorted(topics)
            for number, partition in enumerate(_list(topics, topic, "topics."))
        ]
    )


def read_history(data: Mapping[str, Any]) -> CommitHistory:
    """The events of a group, and the settings of the store that takes them."""
    intervals = _number(data, "intervals", _SLOTS) if "intervals" in data else 10
    distance = _number(data, "min_distance", _SECONDS) if "min_distance" in data else 0
    expire = _number(data, "expire_group", _SECONDS) if "expire_group" in data else 604_800
    events = _list(data, "events", "")
    for at, event in enumerate(events):
        _check_event(event, f"events[{at}]")
    return CommitHistory(intervals, distance, expire, events)


def _check_slot(slot: Any, where: str) -> None:
    _expect(isinstance(slot, dict), where, slot, "a slot: an object or null")
    for name, accepted in _SLOT_FIELDS:
        _number(slot, name, accepted, f"{where}.")
    if slot.get("lag") is not None:
        _number(slot, "lag", _COUNT, f"{where}.")


def _check_event(event: Any, where: str) -> None:
    _expect(isinstance(event, dict), where, event, "an object")
    kind = event.get("type")
    if not isinstance(kind, str) or kind not in _EVENTS:
        raise BadLineError(f"{where}.type: {_shown(kind)} is not one of {', '.join(_EVENTS)}")
    if kind not in _WITHOUT_TOPIC or "topic" in event:
        _expect(isinstance(event.get("topic"), str), f"{where}.topic", event.get("topic"), "text")
    for name, accepted in _EVENTS[kind].items():
        if accepted is None:
            _expect(isinstance(event.get(name), str), f"{where}.{name}", event.get(name), "text")
        else:
            _number(event, name, accepted, f"{where}.")


def _number(data: Mapping[str, Any], name: str, accepted: range, where: str = "") -> int:
    value = data.get(name)
    if type(value) is int and value in accepted:
        return value
    if name not in data:
        raise BadLineError(f"{where}{name}: is missing")
    low, high = accepted.start, accepted.stop - 1
    raise BadLineError(f"{where}{name}: {_shown(value)} is not a whole number from {low} to {high}")


def _list(data: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = data.get(name)
    if isinstance(value, list):
        return value
    raise BadLineError(f"{where}{name}: " + (f"{_shown(value)} is not a list" if name in data else "is missing"))


def _all_in(values: Iterable[Any], accepted: range) -> bool:
    return all(type(value) is int and value in accepted for value in values)


def _expect(holds: bool, where: str, value: Any, what: str) -> None:
    if not holds:
        raise BadLineError(f"{where}: {_shown(value)} is not {what}")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
