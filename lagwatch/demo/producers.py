"""Traffic: a topic, a rate and the shares of its partitions enter, records that arrive in them leave."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count

from lagwatch.demo.client_thread import ClientThread
from lagwatch.demo.clients import close_producer, open_producer
from lagwatch.demo.rate import Rate, check_above_zero

_STEP_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Producing:
    """Writes `per_second` records a second to a topic; `shares` says how they fall on its partitions, 0, 1, ...

    Which record goes where follows from `seed` alone. Records that find no leader wait for one, up to two minutes.
    """

    topic: str
    per_second: float
    shares: tuple[float, ...]
    seed: int = 1
    size_bytes: int = 100

    def __post_init__(self) -> None:
        check_above_zero(per_second=self.per_second, shares=sum(self.shares), size_bytes=self.size_bytes)

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Produce until the end."""
        chance, pace, numbers = random.Random(self.seed), Rate(self.per_second), count()
        producer = open_producer(bootstrap, client_id=f"demo-produces-{self.topic}")
        try:
            while life.wait(_STEP_SECONDS):
                for partition in self.partitions_of_next(pace.due(life.seconds), chance):
                    producer.send(self.topic, self._record(next(numbers)), partition=partition)
        finally:
            close_producer(producer)

    def partitions_of_next(self, number: int, chance: random.Random) -> list[int]:
        """Where the next records go."""
        return chance.choices(range(len(self.shares)), self.shares, k=number)

    def _record(self, number: int) -> bytes:
        return f'{{"topic":"{self.topic}","number":{number}}}'.encode().ljust(self.size_bytes)
