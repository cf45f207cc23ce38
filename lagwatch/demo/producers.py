"""A producer behaviour with a fixed rate, distributed unevenly over partitions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count

from lagwatch.demo.client_thread import RunContext
from lagwatch.demo.clients import close_producer, open_producer
from lagwatch.demo.rate import Rate, check_above_zero

_STEP_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Producing:
    """Writes `per_second` records per second to a topic; `shares` are the weights of its partitions 0, 1, ...

    The partition of each record depends on `seed` only. Records wait up to two minutes for a leader.
    """

    topic: str
    per_second: float
    shares: tuple[float, ...]
    seed: int = 1
    size_bytes: int = 100

    def __post_init__(self) -> None:
        check_above_zero(per_second=self.per_second, shares=sum(self.shares), size_bytes=self.size_bytes)

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Produce until the end."""
        chance, rate, numbers = random.Random(self.seed), Rate(self.per_second), count()
        producer = open_producer(bootstrap, client_id=f"demo-produces-{self.topic}")
        try:
            while context.wait(_STEP_SECONDS):
                for partition in self.partitions_of_next(rate.due(context.elapsed_seconds), chance):
                    producer.send(self.topic, self._record(next(numbers)), partition=partition)
        finally:
            close_producer(producer)

    def partitions_of_next(self, number: int, chance: random.Random) -> list[int]:
        """The partitions of the next records."""
        return chance.choices(range(len(self.shares)), self.shares, k=number)

    def _record(self, number: int) -> bytes:
        return f'{{"topic":"{self.topic}","number":{number}}}'.encode().ljust(self.size_bytes)
