"""A simulated cluster on a virtual clock: consumers with known behaviour, observed by a real pipeline.

A behaviour defines what its group does each second; the simulation appends to the log, polls every `poll_seconds`, passes
commits on like polls or like the offsets topic, and records the verdict of every poll.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import COMMIT
from lagwatch.clock import Moment, SettableClock
from lagwatch.evaluation import Evaluator, Policies
from lagwatch.pipeline.checkpoint import pack, unpack
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import BACKLOG, COMMITS, KAFKA
from tests.harness.polls import poll, rows_of


@dataclass(slots=True)
class Log:
    """One partition; messages of time t are those below `end` at t."""

    rate: Callable[[int], float]
    end: float = 0.0
    start: int = 0
    topic_id: str = "first"

    def advance(self, second: int) -> None:
        self.end += self.rate(second)


@dataclass(slots=True)
class SimulatedGroup:
    """The state of the group at the brokers."""

    committed: int | None = None
    members: bool = True
    had_members: bool = True
    exists: bool = True
    assigned: str = ""  # the topic assigned to its member; by default its own
    commits: list[int] = field(default_factory=list)  # in this second

    def commit(self, offset: int) -> None:
        self.committed = offset
        self.commits.append(offset)


Behaviour = Callable[[int, Log, SimulatedGroup], None]
Rate = float | Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict at one poll."""

    second: int
    status: str
    why: str
    lag: int
    lag_seconds: tuple[float | None, ...]  # lower bound, estimate, upper bound


@dataclass(slots=True)
class Consumer:
    """A group on its own topic, and what happens to both each second."""

    behaviour: Behaviour
    log: Log
    group: SimulatedGroup = field(default_factory=SimulatedGroup)
    waiting: list[tuple[int, int]] = field(default_factory=list)  # offset and ms of commits not collected yet


class Simulation:
    """Simulates consumers in parallel; with `from_topic` commits come from the offsets topic, otherwise from polls."""

    def __init__(
        self,
        consumers: Mapping[str, tuple[Behaviour, Rate]],
        *,
        from_topic: bool = False,
        poll_seconds: int = 10,
        policies: Policies | None = None,
        commit_rows: int = 1_000_000,
        clock: SettableClock | None = None,
        run_seconds: float = 0.1,
    ) -> None:
        self.clock = clock or SettableClock()
        self.consumers = {name: Consumer(behave, Log(_rate(rate))) for name, (behave, rate) in consumers.items()}
        self.batches: list[list[Batch]] = []  # everything that was written
        self._from_topic = from_topic
        self._poll_seconds = poll_seconds
        self._policies = policies
        self._commit_rows = commit_rows
        self._run_seconds = run_seconds
        self._saved: tuple[bytes, int] | None = None  # a checkpoint, and the number of runs it covers
        self.allowed = True  # whether the offsets topic may be read
        self.backlog = 0  # commits that the commits job leaves for its next run
        self._second = self._order = 0
        self.state = self._new_state()

    def run(self, seconds: int) -> dict[str, list[Verdict]]:
        """Run for `seconds`; returns the verdicts of its polls by consumer."""
        verdicts: dict[str, list[Verdict]] = {name: [] for name in self.consumers}
        for _ in range(seconds):
            self._advance()
            if self._second % self._poll_seconds == 0:
                for name, verdict in self._poll().items():
                    verdicts[name].append(verdict)
        return verdicts

    def restart(self) -> None:
        """Continue with a new agent from the last checkpoint, if there is one, and the batches written after it."""
        self.state, now, covered = self._new_state(), Moment.now(self.clock), 0
        if self._saved is not None:
            saved, covered = self._saved
            self.state.load(unpack(saved), now)
        for batches in self.batches[covered:]:
            self.state.replay(batches, now)
        self.state.finish_replay(now)

    def save_checkpoint(self) -> None:
        """Save a checkpoint for the next restart."""
        self._saved = pack(self.state.save(self.clock.wall_ms())), len(self.batches)

    def restart_from_checkpoint(self, *, from_topic: bool | None = None) -> None:
        """Continue with a new agent from a checkpoint of this moment, configured for this source of commits."""
        self.save_checkpoint()
        self._from_topic = self._from_topic if from_topic is None else from_topic
        self.restart()

    def look_back(self, seconds: int = 600) -> None:
        """Read the offsets topic again from `seconds` ago, like a starting commits job."""
        since_ms = self.clock.wall_ms() - seconds * 1000
        rows = [
            row for batches in self.batches for row in rows_of(batches, "commit") if row["commit_time_ms"] >= since_ms
        ]
        names = ("group", "topic", "partition", "committed_offset", "commit_time_ms", "order")
        columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
        self.see(COMMITS, Collected([make_batch(COMMIT, "east", self.clock.wall_ms(), columns)], []))

    def see(self, source: str, collected: Collected) -> list[Batch]:
        """Pass batches to the pipeline."""
        batches = self.state.observe(source, collected, self._run_seconds, Moment.now(self.clock))
        self.state.publish(batches)
        self.batches.append(batches)
        return batches

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table in the last poll."""
        return rows_of(self.batches[-1], table)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """All events of a kind."""
        return [row for batches in self.batches for row in rows_of(batches, "event") if row["kind"] == kind]

    def _new_state(self) -> ClusterState:
        evaluator = Evaluator(self._policies, poll_ms=self._poll_seconds * 1000, reads_topic=self._from_topic)
        evaluator.keeps_rows = True
        return ClusterState(Pipeline("east", evaluator))

    def _advance(self) -> None:
        self._second += 1
        self.clock.advance(1)
        for consumer in self.consumers.values():
            consumer.log.advance(self._second)
            consumer.group.commits = []
            consumer.behaviour(self._second, consumer.log, consumer.group)
            consumer.waiting += [(offset, self.clock.wall_ms()) for offset in consumer.group.commits]

    def _poll(self) -> dict[str, Verdict]:
        if self._from_topic and not self.allowed:
            self.see(COMMITS, Collected([], [], complete=False, fallback="not allowed"))
        elif self._from_topic:
            commits = self._commit_batch()
            for start in range(0, max(len(commits), 1), self._commit_rows):
                part = replace(commits, rows=commits.rows.slice(start, self._commit_rows))
                behind = [Failure(COMMITS, BACKLOG, "not read yet")] if self.backlog else []
                self.see(COMMITS, Collected([part], behind))
        there = {name: one.group for name, one in self.consumers.items() if one.group.exists}
        self.see(
            KAFKA,
            poll(
                {(name, 0): int(one.log.end) for name, one in self.consumers.items()},
                {(name, name, 0): group.committed for name, group in there.items() if group.committed is not None},
                starts={(name, 0): one.log.start for name, one in self.consumers.items()},
                states={name: "Stable" if group.members else "Empty" for name, group in there.items()},
                members={
                    name: [("m", f"{group.assigned or name}:0")] for name, group in there.items() if group.members
                },
                protocol_types={name: "consumer" if group.had_members else "" for name, group in there.items()},
                topic_ids={name: one.log.topic_id for name, one in self.consumers.items()},
                ends_read={1: (20, 40)},
                at_ms=self.clock.wall_ms(),
            ),
        )
        lag = {row["group"]: row for row in self.rows("consumer_lag")}
        bounds = ("lag_seconds_low", "lag_seconds", "lag_seconds_high")
        return {
            row["group"]: Verdict(
                self._second,
                row["status_text"],
                row["why"],
                lag[row["group"]]["lag"],
                tuple(lag[row["group"]][name] for name in bounds),
            )
            for row in self.rows("consumer_group")
            if row["status_text"]
        }

    def _commit_batch(self) -> Batch:
        rows = []
        for name, consumer in self.consumers.items():
            read = max(len(consumer.waiting) - self.backlog, 0)
            for offset, at_ms in consumer.waiting[:read]:
                self._order += 1
                rows.append((name, offset, at_ms, self._order))
            consumer.waiting = consumer.waiting[read:]
        columns: dict[str, list[Any]] = {
            "group": [name for name, *_ in rows],
            "topic": [name for name, *_ in rows],
            "partition": [0] * len(rows),
            "committed_offset": [offset for _, offset, _, _ in rows],
            "commit_time_ms": [at_ms for _, _, at_ms, _ in rows],
            "order": [order for *_, order in rows],
        }
        return make_batch(COMMIT, "east", self.clock.wall_ms(), columns)


def _rate(rate: Rate) -> Callable[[int], float]:
    return rate if callable(rate) else lambda _: rate


def keeping_up(every: int = 1, *, members: bool = True) -> Behaviour:
    """Reads everything and commits every `every` seconds."""

    def behave(second: int, log: Log, group: SimulatedGroup) -> None:
        group.members = group.had_members = members
        if second % every == 0 or group.committed is None:
            group.commit(int(log.end))

    return behave


def reading(rate: float, every: int = 5) -> Behaviour:
    """Reads at most `rate` messages per second."""
    position = [0.0]

    def behave(second: int, log: Log, group: SimulatedGroup) -> None:
        position[0] = min(position[0] + rate, log.end)
        if second % every == 0:
            group.commit(int(position[0]))

    return behave


def half_speed(after: int) -> Behaviour:
    """Keeps up at first, then reads 10 of the 20 messages a second."""

    def behave(second: int, log: Log, group: SimulatedGroup) -> None:
        if second % 5 == 0:
            group.commit(int(log.end) - 10 * max(0, second - after))

    return behave


def then(first: Behaviour, until: int, second_one: Behaviour) -> Behaviour:
    """One behaviour, then from second `until` on another."""
    return lambda second, log, group: (first if second < until else second_one)(second, log, group)


def standing_still(every: int = 2) -> Behaviour:
    """A live member that commits the same offset repeatedly."""

    def behave(second: int, _: Log, group: SimulatedGroup) -> None:
        if second % every == 0 and group.committed is not None:
            group.commit(group.committed)

    return behave


def gone(_: int, __: Log, group: SimulatedGroup) -> None:
    """Left the group for ever."""
    group.members = False


from_both = pytest.mark.parametrize("from_topic", [False, True], ids=["from polls", "from the offsets topic"])


def first(verdicts: list[Verdict], status: str) -> int:
    """When a status was first reported."""
    return next((verdict.second for verdict in verdicts if verdict.status == status), 10**9)


def said(verdicts: list[Verdict], after: int = 0, before: int = 10**9) -> set[str]:
    """The statuses within a span of seconds."""
    return {verdict.status for verdict in verdicts if after <= verdict.second < before}


def simulate(behaviour: Behaviour, rate: Rate = 20.0, *, from_topic: bool = False) -> Simulation:
    """A simulation of one group."""
    return Simulation({"g": (behaviour, rate)}, from_topic=from_topic)
