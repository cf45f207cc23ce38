"""Consumers that behave well, and consumers that do not: parameters enter, what such a group looks like leaves.

Each class is one way to behave, run by life.py against real brokers. One object is one member of its group.
"""

from __future__ import annotations

from dataclasses import dataclass

from lagwatch.demo.client_thread import ClientThread
from lagwatch.demo.clients import MOST, DemoConsumer
from lagwatch.demo.rate import Every, Rate, check_above_zero

STEP_SECONDS = 0.5
_FOR_EVER = float("inf")


def consume(
    reader: DemoConsumer,
    life: ClientThread,
    *,
    until: float = _FOR_EVER,
    per_second: float | None = None,
    commit_every_seconds: float = 1.0,
) -> None:
    """Read and commit until the life is over or so old. Without a rate all that comes is read.

    The first records are committed at once, however rare commits are: a group is known by its commits.
    """
    pace, commit = Rate(per_second) if per_second else None, Every(commit_every_seconds)
    has_read = False
    while life.wait(STEP_SECONDS) and life.seconds < until:
        most = pace.due(life.seconds) if pace else MOST
        if most and reader.read(most):
            has_read = True
        if has_read and commit.is_due(life.seconds) and not reader.commit():
            commit.missed()


@dataclass(frozen=True, slots=True)
class Consuming:
    """Reads and commits. With a rate below the traffic's it falls behind; `commit_every_seconds` may be long."""

    group: str
    topic: str
    per_second: float | None = None
    commit_every_seconds: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(commit_every_seconds=self.commit_every_seconds)
        if self.per_second is not None:
            check_above_zero(per_second=self.per_second)

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Consume until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic, small_bites=self.per_second is not None) as reader:
            consume(reader, life, per_second=self.per_second, commit_every_seconds=self.commit_every_seconds)


@dataclass(frozen=True, slots=True)
class Stalling:
    """Works for a while; then it is alive, sends its heartbeats and commits, but always the same offsets."""

    group: str
    topic: str
    works_for_seconds: float = 10.0
    commit_every_seconds: float = 2.0

    def __post_init__(self) -> None:
        check_above_zero(works_for_seconds=self.works_for_seconds, commit_every_seconds=self.commit_every_seconds)

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Consume, then stand still until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic) as reader:
            consume(reader, life, until=self.works_for_seconds, commit_every_seconds=self.commit_every_seconds)
            commit = Every(self.commit_every_seconds)
            while life.wait(STEP_SECONDS):
                reader.stand_still()
                if commit.is_due(life.seconds):
                    reader.commit()


@dataclass(frozen=True, slots=True)
class Stopping:
    """Works for a while, then leaves and never comes back; its commits stay, and records keep coming."""

    group: str
    topic: str
    works_for_seconds: float = 20.0

    def __post_init__(self) -> None:
        check_above_zero(works_for_seconds=self.works_for_seconds)

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Consume, then return."""
        if life.seconds < self.works_for_seconds:
            with DemoConsumer(bootstrap, self.group, self.topic) as reader:
                consume(reader, life, until=self.works_for_seconds)


@dataclass(frozen=True, slots=True)
class Restarting:
    """Works, goes away, comes back, again and again, as something that is deployed often. Nothing is wrong with it."""

    group: str
    topic: str
    works_for_seconds: float = 40.0
    away_seconds: float = 40.0

    def __post_init__(self) -> None:
        check_above_zero(works_for_seconds=self.works_for_seconds, away_seconds=self.away_seconds)

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Consume and be away by turns until the end."""
        round_seconds = self.works_for_seconds + self.away_seconds
        while not life.over:
            began = life.seconds // round_seconds * round_seconds
            if life.seconds < began + self.works_for_seconds:
                with DemoConsumer(bootstrap, self.group, self.topic) as reader:
                    consume(reader, life, until=began + self.works_for_seconds)
            life.wait(began + round_seconds - life.seconds)


@dataclass(frozen=True, slots=True)
class Bursting:
    """Reads nothing for most of each round, then all there is within `burst_seconds`."""

    group: str
    topic: str
    every_seconds: float = 30.0
    burst_seconds: float = 5.0

    def __post_init__(self) -> None:
        check_above_zero(
            burst_seconds=self.burst_seconds, every_seconds_less_burst_seconds=self.every_seconds - self.burst_seconds
        )

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Read in bursts until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic) as reader:
            while life.wait(STEP_SECONDS):
                if life.seconds % self.every_seconds < self.burst_seconds:
                    reader.read()
                    reader.commit()
                else:
                    reader.stand_still()


@dataclass(frozen=True, slots=True)
class Rewinding:
    """Jumps back to the first record every so often, commits that, and catches up within `catch_up_seconds`."""

    group: str
    topic: str
    every_seconds: float = 60.0
    catch_up_seconds: float = 20.0

    def __post_init__(self) -> None:
        check_above_zero(
            catch_up_seconds=self.catch_up_seconds,
            every_seconds_less_catch_up_seconds=self.every_seconds - self.catch_up_seconds,
        )

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Consume, rewind, catch up, again and again until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic) as reader:
            while not life.over:
                next_jump = (life.seconds // self.every_seconds + 1) * self.every_seconds
                consume(reader, life, until=next_jump)
                if not life.over:
                    back = reader.rewind()
                    reader.commit()
                    caught_up = next_jump + self.catch_up_seconds
                    consume(reader, life, until=caught_up, per_second=1 + back / self.catch_up_seconds)


@dataclass(frozen=True, slots=True)
class CommittingWithoutMembers:
    """Takes its partitions itself, as Flink, Spark and scripts do: its group has commits, but is Empty all the time."""

    group: str
    topic: str
    commit_every_seconds: float = 60.0

    def __post_init__(self) -> None:
        check_above_zero(commit_every_seconds=self.commit_every_seconds)

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Consume until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic, member=False) as reader:
            consume(reader, life, commit_every_seconds=self.commit_every_seconds)
