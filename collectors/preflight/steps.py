"""The steps of a cluster check, and a helper to run tasks in parallel with a timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

StepState = Literal["ok", "warning", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a check.

    `message` is the result and its meaning, `action` what to do about it. For requests that need permission, `needs` is
    the ACL and `impact` what does not work without it.
    """

    step: str
    target: str
    state: StepState
    message: str
    action: str = ""
    needs: str = ""
    impact: str = ""
    seconds: float | None = None

    @property
    def is_finding(self) -> bool:
        """Whether it is a finding, with an action to take."""
        return self.state in ("warning", "failed")

    def with_duration(self, seconds: float | None) -> Step:
        """A copy with the duration."""
        return replace(self, seconds=seconds)


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """All steps of one cluster. `reached_brokers`: requests could be sent to its brokers."""

    cluster: str
    bootstrap: tuple[str, ...]
    how: str
    steps: tuple[Step, ...]
    reached_brokers: bool

    @property
    def exit_code(self) -> int:
        """0 all fine, 1 findings, 2 no requests possible."""
        if not self.reached_brokers:
            return 2
        return 1 if any(step.is_finding for step in self.steps) else 0


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[T]):
    """The outcome of one parallel task: its result, or the error it raised; TimeoutError if it did not finish in time."""

    result: T | None
    error: Exception | None
    seconds: float


def run_in_parallel(tasks: Sequence[Callable[[], T]], seconds: float) -> list[TaskOutcome[T]]:
    """Run each task in a thread and wait at most `seconds` for all of them.

    A task that takes longer keeps running: nothing can interrupt a DNS lookup. Its daemon thread does not keep the process
    alive.
    """
    start = time.monotonic()
    outcomes: list[TaskOutcome[T] | None] = [None] * len(tasks)

    def run(place: int, task: Callable[[], T]) -> None:
        try:
            outcomes[place] = TaskOutcome(task(), None, time.monotonic() - start)
        except Exception as error:  # noqa: BLE001  # returned as this task's outcome
            outcomes[place] = TaskOutcome(None, error, time.monotonic() - start)

    threads = [threading.Thread(target=run, args=job, daemon=True) for job in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, start + seconds - time.monotonic()))
    late = TimeoutError(f"no answer within {seconds:.1f} s")
    return [outcome or TaskOutcome(None, late, time.monotonic() - start) for outcome in list(outcomes)]


def plural(count: int, noun: str) -> str:
    """`1 group`, `3 groups`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
