"""Whether JMX and the Kafka API tell the same of a cluster: what both told enters, what they tell differently leaves.

A difference of a moment is no news: both are asked at their own times. So a fact of JMX agrees when the Kafka API told
the same at any time since the JMX poll before, and only a difference that lasts is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Facts = Mapping[str, int]  # what is told, by a name that says of whom, such as `leaders of broker 2`

POLLS_UNTIL_TOLD = 3  # more than two
_MOST_KEPT = 100  # of what the Kafka API told, where JMX is asked seldom or not at all


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One thing the two tell differently, and for how many JMX polls."""

    what: str
    kafka: int
    jmx: int
    polls: int

    @property
    def words(self) -> str:
        """`leaders of broker 2: Kafka tells 4, JMX 5`."""
        return f"{self.what}: Kafka tells {self.kafka}, JMX {self.jmx}"


class DisagreementTracker:
    """Compares what the two tell, poll by poll."""

    def __init__(self) -> None:
        self._told: dict[str, list[int]] = {}  # by the Kafka API since the JMX poll before, the newest last
        self._polls: dict[str, int] = {}
        self._lasting: dict[str, Disagreement] = {}
        self._not_compared: dict[str, int] = {}  # for how many JMX polls
        self.compared: frozenset[str] = frozenset()  # in the last JMX poll

    def kafka_told(self, facts: Facts) -> None:
        """Take in a poll of the Kafka API."""
        for what, value in facts.items():
            told = self._told.setdefault(what, [])
            told.append(value)
            del told[:-_MOST_KEPT]

    def forget(self, whats: Iterable[str]) -> None:
        """Compare these no longer, until the Kafka API tells them again."""
        for what in whats:
            self._told.pop(what, None)
            self._drop(what)

    def jmx_told(self, facts: Facts) -> list[Disagreement]:
        """Compare a poll of JMX; everything that has differed for more than two polls, sorted.

        What one of the two did not tell is not compared: what was found of it stands, for two polls more.
        """
        self.compared = frozenset(what for what in facts if self._told.get(what))
        for what in self.compared:
            told, value = self._told[what], facts[what]
            self._not_compared.pop(what, None)
            if value in told:
                self._drop(what)
                continue
            self._polls[what] = self._polls.get(what, 0) + 1
            if self._polls[what] >= POLLS_UNTIL_TOLD:
                self._lasting[what] = Disagreement(what, told[-1], value, self._polls[what])
        for what in self._polls.keys() - self.compared:
            self._not_compared[what] = self._not_compared.get(what, 0) + 1
            if self._not_compared[what] >= POLLS_UNTIL_TOLD:
                self._drop(what)
        self._told = {what: told[-1:] for what, told in self._told.items() if what in facts}
        return sorted(self._lasting.values(), key=lambda found: found.what)

    def _drop(self, what: str) -> None:
        for kept in (self._polls, self._lasting, self._not_compared):
            kept.pop(what, None)
