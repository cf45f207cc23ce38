"""Consumer behaviours of the demo and the tests, healthy and faulty.

Each class is one behaviour, run by client_thread.py against real brokers. One object is one member of its group.
"""

from __future__ import annotations

from dataclasses import dataclass

from lagwatch.demo.client_thread import RunContext
from lagwatch.demo.clients import MAX_RECORDS, DemoConsumer
from lagwatch.demo.rate import Every, Rate, check_above_zero

STEP_SECONDS = 0.5
_FOR_EVER = float("inf")


def consume(
    reader: DemoConsumer,
    context: RunContext,
    *,
    until: float = _FOR_EVER,
    per_second: float | None = None,
    commit_every_seconds: float = 1.0,
) -> None:
    """Read and commit until the client stops or has run for `until` seconds. Without a rate it reads everything.

    The first records are committed at once, whatever the commit interval: a group exists by its commits.
    """
    rate, commit = Rate(per_second) if per_second else None, Every(commit_every_seconds)
    has_read = False
    while context.wait(STEP_SECONDS) and context.elapsed_seconds < until:
        limit = rate.due(context.elapsed_seconds) if rate else MAX_RECORDS
        if limit and reader.read(limit):
            has_read = True
        if has_read and commit.is_due(context.elapsed_seconds) and not reader.commit():
            commit.missed()


@dataclass(frozen=True, slots=True)
class Consuming:
    """Reads and commits. With a rate below the producers' it falls behind; `commit_every_seconds` may be long."""

    group: str
    topic: str
    per_second: float | None = None
    commit_every_seconds: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(commit_every_seconds=self.commit_every_seconds)
        if self.per_second is not None:
            check_above_zero(per_second=self.per_second)

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Consume until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic, small_fetches=self.per_second is not None) as reader:
            consume(reader, context, per_second=self.per_second, commit_every_seconds=self.commit_every_seconds)


@dataclass(frozen=True, slots=True)
class Stalling:
    """Works for a while, then stays a live member with heartbeats but commits the same offsets again and again."""

    group: str
    topic: str
    works_for_seconds: float = 10.0
    commit_every_seconds: float = 2.0

    def __post_init__(self) -> None:
        check_above_zero(works_for_seconds=self.works_for_seconds, commit_every_seconds=self.commit_every_seconds)

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Consume, then make no progress until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic) as reader:
            consume(reader, context, until=self.works_for_seconds, commit_every_seconds=self.commit_every_seconds)
            commit = Every(self.commit_every_seconds)
            while context.wait(STEP_SECONDS):
                reader.idle()
                if commit.is_due(context.elapsed_seconds):
                    reader.commit()


@dataclass(frozen=True, slots=True)
class Stopping:
    """Works for a while, then leaves the group for ever; its commits stay, and producers keep writing."""

    group: str
    topic: str
    works_for_seconds: float = 20.0

    def __post_init__(self) -> None:
        check_above_zero(works_for_seconds=self.works_for_seconds)

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Consume, then return."""
        if context.elapsed_seconds < self.works_for_seconds:
            with DemoConsumer(bootstrap, self.group, self.topic) as reader:
                consume(reader, context, until=self.works_for_seconds)


@dataclass(frozen=True, slots=True)
class Restarting:
    """Alternately works and is down, like a service with frequent deployments. Nothing is wrong with it."""

    group: str
    topic: str
    works_for_seconds: float = 40.0
    away_seconds: float = 40.0

    def __post_init__(self) -> None:
        check_above_zero(works_for_seconds=self.works_for_seconds, away_seconds=self.away_seconds)

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Alternately consume and be down until the end."""
        round_seconds = self.works_for_seconds + self.away_seconds
        while not context.stopping:
            began = context.elapsed_seconds // round_seconds * round_seconds
            if context.elapsed_seconds < began + self.works_for_seconds:
                with DemoConsumer(bootstrap, self.group, self.topic) as reader:
                    consume(reader, context, until=began + self.works_for_seconds)
            context.wait(began + round_seconds - context.elapsed_seconds)


@dataclass(frozen=True, slots=True)
class Bursting:
    """Reads nothing for most of each round, then everything within `burst_seconds`."""

    group: str
    topic: str
    every_seconds: float = 30.0
    burst_seconds: float = 5.0

    def __post_init__(self) -> None:
        check_above_zero(
            burst_seconds=self.burst_seconds, every_seconds_less_burst_seconds=self.every_seconds - self.burst_seconds
        )

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Read in bursts until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic) as reader:
            while context.wait(STEP_SECONDS):
                if context.elapsed_seconds % self.every_seconds < self.burst_seconds:
                    reader.read()
                    reader.commit()
                else:
                    reader.idle()


@dataclass(frozen=True, slots=True)
class Rewinding:
    """Seeks to the first record every `every_seconds`, commits, and catches up within `catch_up_seconds`."""

    group: str
    topic: str
    every_seconds: float = 60.0
    catch_up_seconds: float = 20.0

    def __post_init__(self) -> None:
        check_above_zero(
            catch_up_seconds=self.catch_up_seconds,
            every_seconds_less_catch_up_seconds=self.every_seconds - self.catch_up_seconds,
        )

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Repeat consume, rewind and catch up until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic) as reader:
            while not context.stopping:
                next_jump = (context.elapsed_seconds // self.every_seconds + 1) * self.every_seconds
                consume(reader, context, until=next_jump)
                if not context.stopping:
                    back = reader.rewind()
                    reader.commit()
                    caught_up = next_jump + self.catch_up_seconds
                    consume(reader, context, until=caught_up, per_second=1 + back / self.catch_up_seconds)


@dataclass(frozen=True, slots=True)
class CommittingWithoutMembers:
    """Assigns its partitions itself, like Flink, Spark and scripts: the group has commits but is always Empty."""

    group: str
    topic: str
    commit_every_seconds: float = 60.0

    def __post_init__(self) -> None:
        check_above_zero(commit_every_seconds=self.commit_every_seconds)

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Consume until the end."""
        with DemoConsumer(bootstrap, self.group, self.topic, member=False) as reader:
            consume(reader, context, commit_every_seconds=self.commit_every_seconds)
