"""Restarts and the batching of commits change no verdict, for any behaviour of consumers."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=12, deadline=None)
@given(STORY, st.integers(20, SECONDS - 20), st.booleans())
def test_a_restart_at_any_moment_changes_no_verdict(story: list[tuple[str, int]], at: int, from_topic: bool) -> None:
    whole = verdicts_of(Simulation({"g": (behaviour_of(story), 20.0)}, from_topic=from_topic), SECONDS)
    halved = Simulation({"g": (behaviour_of(story), 20.0)}, from_topic=from_topic)
    verdicts = verdicts_of(halved, at)
    halved.restart()
    assert verdicts + verdicts_of(halved, SECONDS - at) == whole


@settings(max_examples=12, deadline=None)
@given(STORY, st.integers(1, 4))
def test_commits_in_smaller_batches_change_no_verdict(story: list[tuple[str, int]], rows: int) -> None:
    whole = verdicts_of(Simulation({"g": (behaviour_of(story), 20.0)}, from_topic=True), SECONDS)
    cut = Simulation({"g": (behaviour_of(story), 20.0)}, from_topic=True, commit_rows=rows)
    assert verdicts_of(cut, SECONDS) == whole
