"""Finds values that JMX and the Kafka API report differently for a cluster.

The two are polled at different times, so a short difference is normal. A JMX value agrees when the Kafka API reported the
same value at any time since the JMX poll before; only a difference that lasts is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ReportedValues = Mapping[str, int]  # values by a name with their subject, such as `leaders of broker 2`

POLLS_UNTIL_REPORTED = 3
_MOST_KEPT = 100  # values of the Kafka API between two JMX polls


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One value that differs, and for how many JMX polls."""

    what: str
    kafka: int
    jmx: int
    polls: int

    @property
    def text(self) -> str:
        """`leaders of broker 2: Kafka reports 4, JMX 5`."""
        return f"{self.what}: Kafka reports {self.kafka}, JMX {self.jmx}"


class DisagreementTracker:
    """Compares the two, poll by poll."""

    def __init__(self) -> None:
        self._kafka: dict[str, list[int]] = {}  # values since the JMX poll before, newest last
        self._polls: dict[str, int] = {}
        self._lasting: dict[str, Disagreement] = {}
        self._not_compared: dict[str, int] = {}  # for how many JMX polls
        self.compared: frozenset[str] = frozenset()  # in the last JMX poll

    def observe_kafka(self, kafka_values: ReportedValues) -> None:
        """Record a poll of the Kafka API."""
        for what, value in kafka_values.items():
            values = self._kafka.setdefault(what, [])
            values.append(value)
            del values[:-_MOST_KEPT]

    def forget(self, whats: Iterable[str]) -> None:
        """Stop comparing these until the Kafka API reports them again."""
        for what in whats:
            self._kafka.pop(what, None)
            self._drop(what)

    def observe_jmx(self, jmx_values: ReportedValues) -> list[Disagreement]:
        """Compare a poll of JMX; returns everything that has differed for at least three polls, sorted.

        A value that only one of the two reports is not compared; its earlier result stays for two more polls.
        """
        self.compared = frozenset(what for what in jmx_values if self._kafka.get(what))
        for what in self.compared:
            reported, value = self._kafka[what], jmx_values[what]
            self._not_compared.pop(what, None)
            if value in reported:
                self._drop(what)
                continue
            self._polls[what] = self._polls.get(what, 0) + 1
            if self._polls[what] >= POLLS_UNTIL_REPORTED:
                self._lasting[what] = Disagreement(what, reported[-1], value, self._polls[what])
        for what in self._polls.keys() - self.compared:
            self._not_compared[what] = self._not_compared.get(what, 0) + 1
            if self._not_compared[what] >= POLLS_UNTIL_REPORTED:
                self._drop(what)
        self._kafka = {what: values[-1:] for what, values in self._kafka.items() if what in jmx_values}
        return sorted(self._lasting.values(), key=lambda found: found.what)

    def _drop(self, what: str) -> None:
        for kept in (self._polls, self._lasting, self._not_compared):
            kept.pop(what, None)
