"""Restarts and the batching of commits change no verdict, for any behaviour of consumers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lagwatch.evaluation import Policies, PolicySettings
from lagwatch.verdict.status import Mode
from tests.harness.simulated_consumers import (
    Behaviour,
    Log,
    SimulatedGroup,
    Simulation,
    Verdict,
    gone,
    keeping_up,
    reading,
    standing_still,
    then,
)

SECONDS = 420
POLL_SECONDS = 10


def back_to_the_start(second: int, log: Log, group: SimulatedGroup) -> None:
    """Goes back, and then reads on quickly."""
    group.commit(0 if second % 97 == 0 else min((group.committed or 0) + 200, int(log.end)))


ACTS: dict[str, Callable[[], Behaviour]] = {
    "keeps up": lambda: keeping_up(5),
    "commits seldom": lambda: keeping_up(45),
    "slow": lambda: reading(8),
    "standing still": standing_still,
    "gone": lambda: gone,
    "rewinds": lambda: back_to_the_start,
}
STORY = st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(30, 200)), min_size=2, max_size=4)


def behaviour_of(story: list[tuple[str, int]]) -> Behaviour:
    (last, _), until = story[-1], SECONDS
    behaviour: Behaviour = ACTS[last]()
    for name, seconds in reversed(story[:-1]):
        until -= seconds
        behaviour = then(ACTS[name](), max(until, 1), behaviour)
    return behaviour


def verdicts_of(simulation: Simulation, seconds: int) -> list[Verdict]:
    return simulation.run(seconds)["g"]


@dataclass(frozen=True)
class Course:
    """What happens to the agent: seconds of a checkpoint, of a step of the wall clock, and of other rights."""

    saved: int | None
    stepped: int
    step_seconds: int
    switched: int  # from when on the offsets topic may not be read

    def run(self, simulation: Simulation, *, restart: int | None) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for second in range(SECONDS):
            if second == self.saved:
                simulation.save_checkpoint()
            if second == self.stepped:
                simulation.clock.step_wall(self.step_seconds)
            simulation.allowed = second < self.switched
            if second == restart:
                simulation.restart()
            verdicts += verdicts_of(simulation, 1)
        return verdicts


SECOND = st.integers(0, SECONDS)
COURSE = st.builds(Course, st.none() | SECOND, SECOND, st.sampled_from([0, 0, 3600, -3600]), SECOND | st.just(SECONDS))


@settings(max_examples=20, deadline=None)
@given(STORY, COURSE, SECOND, st.booleans(), st.sampled_from([0.1, 4.0]), st.sampled_from(Mode))
def test_a_restart_at_any_moment_changes_no_verdict(
    story: list[tuple[str, int]], course: Course, restart: int, from_topic: bool, run_seconds: float, mode: Mode
) -> None:
    last_run = restart // POLL_SECONDS * POLL_SECONDS
    assume(not last_run <= course.stepped <= restart)  # a step between that run and the restart is not detected

    def simulation() -> Simulation:
        return Simulation(
            {"g": (behaviour_of(story), 20.0)},
            from_topic=from_topic,
            poll_seconds=POLL_SECONDS,
            run_seconds=run_seconds,
            policies=Policies(PolicySettings(mode=mode)),
        )

    assert course.run(simulation(), restart=restart) == course.run(simulation(), restart=None)


@settings(max_examples=12, deadline=None)
@given(STORY, st.integers(1, 4))
def test_commits_in_smaller_batches_change_no_verdict(story: list[tuple[str, int]], rows: int) -> None:
    whole = verdicts_of(Simulation({"g": (behaviour_of(story), 20.0)}, from_topic=True), SECONDS)
    cut = Simulation({"g": (behaviour_of(story), 20.0)}, from_topic=True, commit_rows=rows)
    assert verdicts_of(cut, SECONDS) == whole
