"""A plain-Python implementation of Burrow's rules, one partition at a time, to check the vectorised one.

It follows the specification and Burrow's results, and shares no code with the implementation it checks.
A slot is a dict of offset, order, timestamp and lag, or None.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

Slot = dict[str, Any] | None
BAD = {"OK": 1, "WARN": 2, "STOP": 3, "STALL": 3, "REWIND": 3}
GROUP_NAMES = {1: "OK", 2: "WARN", 3: "ERR"}


def float32(value: float) -> float:
    """The value rounded to a 32-bit float."""
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def evaluate_partition(window: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Section 1: the result for one partition."""
    slots: list[Slot] = window["offsets"]
    answer = {"status": "OK", "complete": 0.0, "current_lag": window["current_lag"], "start": None, "end": None}
    if not slots:
        return answer
    filled = [slot for slot in slots if slot is not None]
    if not filled:
        return answer | {"complete": float32(1 / len(slots))}
    complete = float32(len(filled) / len(slots))
    answer |= {"complete": complete, "start": filled[0], "end": filled[-1]}
    if complete >= float32(settings["minimum_complete"]):
        answer["status"] = evaluate_commits(
            filled, window["broker_offsets"], window["current_lag"], settings["now"], settings["allowed_lag"]
        )
    return answer


def evaluate_commits(filled: list[dict[str, Any]], ends: list[int], current_lag: int, now_s: int, allowed: int) -> str:
    """Applies the rules in order to the filled slots; the first match decides."""
    if current_lag <= allowed:
        return "OK"
    first, last = filled[0], filled[-1]
    silence, span = now_s * 1000 - last["timestamp"], last["timestamp"] - first["timestamp"]
    if silence > span and not any(end <= last["offset"] for end in ends):
        return "STOP"
    if lost_ground(filled):
        return "REWIND"
    known = [slot["lag"] for slot in filled if slot["lag"] is not None]
    if any(lag <= allowed for lag in known):
        return "OK"
    if all(slot["offset"] == first["offset"] for slot in filled):
        return "STALL"
    return "OK" if any(after < before for before, after in pairwise(known)) else "WARN"


def lost_ground(filled: list[dict[str, Any]]) -> bool:
    """Whether the offset never recovered from its first drop."""
    for at in range(1, len(filled)):
        height = filled[at - 1]["offset"]
        if filled[at]["offset"] < height:
            return not any(later["offset"] >= height for later in filled[at:])
    return False


def evaluate_group(topics: dict[str, list[dict[str, Any]]] | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Section 2: the result for a group; None for an unknown one."""
    if topics is None:
        return {
            "status": "NOTFOUND", "complete": 1.0, "partition_count": 0, "totallag": 0, "partitions": [], "maxlag": None,
        }  # fmt: skip
    partitions = [
        {"topic": topic, "partition": number, **owner_of(window), **evaluate_partition(window, settings)}
        for topic in sorted(topics)
        for number, window in enumerate(topics[topic])
    ]
    most = None
    for partition in partitions:
        if most is None or partition["current_lag"] > most["current_lag"]:
            most = partition
    full = sum(partition["complete"] == 1 for partition in partitions)
    return {
        "status": GROUP_NAMES[max([BAD[partition["status"]] for partition in partitions], default=1)],
        "complete": float32(full / len(partitions)) if partitions else 0.0,
        "partition_count": len(partitions),
        "totallag": sum(partition["current_lag"] for partition in partitions),
        "partitions": partitions,
        "maxlag": most,
    }


def owner_of(entry: dict[str, Any]) -> dict[str, str]:
    """Owner and client id as in results: absent when empty."""
    return {name: entry[name] for name in ("owner", "client_id") if entry.get(name)}


class Storage:
    """Section 3: the storage of one group in a cluster."""

    def __init__(self, intervals: int, min_distance: int, expire_group: int, now_s: int) -> None:
        self._intervals, self._min_distance_ms = intervals, min_distance * 1000
        self._oldest_ms = (now_s - expire_group) * 1000
        self._ends: dict[str, list[list[int]]] = {}
        self._topics: dict[str, list[dict[str, Any]]] | None = None  # None: the group is unknown
        self._last_commit = 0

    def take(self, event: dict[str, Any]) -> None:
        """One event of a history."""
        getattr(self, "_" + event["type"])(event)

    def fetch(self) -> dict[str, list[dict[str, Any]]] | None:
        """The windows of the group for a reader; None when it is unknown or has expired."""
        if self._topics is None or self._last_commit < self._oldest_ms:
            return None
        return {
            topic: [self._window(entry, self._ends[topic][number]) for number, entry in enumerate(entries)]
            for topic, entries in self._topics.items()
        }

    def _window(self, entry: dict[str, Any], ends: list[int]) -> dict[str, Any]:
        slots, lag = entry["slots"], 0
        if slots and slots[-1] is not None:
            lag = max(0, ends[-1] - slots[-1]["offset"])
        return {"offsets": list(slots or []), "broker_offsets": list(ends), "current_lag": lag, **owner_of(entry)}

    def _broker(self, event: dict[str, Any]) -> None:
        partitions = self._ends.setdefault(event["topic"], [])
        while len(partitions) < event["partition_count"]:
            partitions.append([])
        ring = partitions[event["partition"]]
        ring.append(event["offset"])
        del ring[: -self._intervals]

    def _newest_end(self, topic: str, partition: int) -> int | None:
        partitions = self._ends.get(topic, [])
        if partition >= len(partitions) or not partitions[partition]:
            return None
        return partitions[partition][-1]

    def _entry(self, topic: str, partition: int) -> dict[str, Any]:
        """The entry with its slots, created if missing; siblings get an entry without slots."""
        if self._topics is None:
            self._topics, self._last_commit = {}, 0
        entries = self._topics.setdefault(topic, [])
        if partition >= len(entries):
            entries += [{"slots": None} for _ in range(len(self._ends[topic]) - len(entries))]
        entry = entries[partition]
        if entry["slots"] is None:
            entry["slots"] = [None] * self._intervals
        return entry

    def _commit(self, event: dict[str, Any]) -> None:
        end = self._newest_end(event["topic"], event["partition"])
        if event["timestamp"] < self._oldest_ms or end is None:
            return
        slots: list[Slot] = self._entry(event["topic"], event["partition"])["slots"]
        commit = {name: event[name] for name in ("offset", "order", "timestamp")}
        orders = [slot["order"] for slot in slots if slot is not None]
        if not orders or event["order"] > orders[-1]:
            self._last_commit = event["timestamp"]
            self._add_after(slots, len(slots) - 1, commit | {"lag": max(0, end - event["offset"])})
            return
        if event["order"] in orders:
            return
        commit["lag"] = None
        older = sum(order < event["order"] for order in orders)
        full = len(orders) == len(slots)
        if full and older <= 1:
            if older == 1:
                slots[0] = commit
        elif older == 0:
            slots[len(slots) - len(orders) - 1] = commit
        else:
            self._add_after(slots, len(slots) - len(orders) + older - 1, commit)

    def _add_after(self, slots: list[Slot], at: int, commit: dict[str, Any]) -> None:
        """Merge into the slot or insert after it; an insert drops the front slot, empty or the oldest."""
        before = slots[at]
        if before is not None and commit["timestamp"] - before["timestamp"] < self._min_distance_ms:
            slots[at] = commit | {"timestamp": before["timestamp"]}
            return
        slots.insert(at + 1, commit)
        del slots[0]

    def _owner(self, event: dict[str, Any]) -> None:
        if self._topics is None:
            self._topics, self._last_commit = {}, 0
        if self._newest_end(event["topic"], event["partition"]) is not None:
            entry = self._entry(event["topic"], event["partition"])
            entry |= {name: event[name] for name in ("owner", "client_id")}

    def _clear_owners(self, _event: dict[str, Any]) -> None:
        for entries in (self._topics or {}).values():
            for entry in entries:
                entry |= {"owner": "", "client_id": ""}

    def _delete_group(self, event: dict[str, Any]) -> None:
        if "topic" not in event:
            self._topics = None
        elif self._topics is not None:
            self._topics.pop(event["topic"], None)
            if not self._topics:  # unlike the deletion of a topic, this removes a group without other topics
                self._topics = None

    def _delete_topic(self, event: dict[str, Any]) -> None:
        self._ends.pop(event["topic"], None)
        if self._topics is not None:
            self._topics.pop(event["topic"], None)


def evaluate_history(history: dict[str, Any]) -> dict[str, Any]:
    """Burrow's storage and result after a history of events."""
    storage = Storage(history["intervals"], history["min_distance"], history["expire_group"], history["now"])
    for event in history["events"]:
        storage.take(event)
    windows = storage.fetch()
    return {
        "found": windows is not None,
        "windows": windows or {},
        "evaluation": evaluate_group(windows, history),
    }
