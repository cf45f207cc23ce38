"""What a check of a cluster found, step by step, and how steps are asked side by side within a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

State = Literal["ok", "warning", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried.

    `says` is what came out of it and what that means, `do` what to do about it. Where Kafka asks for permission,
    `needs` is the ACL and `loses` what does not work without it.
    """

    step: str
    target: str
    state: State
    says: str
    do: str = ""
    needs: str = ""
    loses: str = ""
    seconds: float | None = None

    @property
    def found(self) -> bool:
        """Whether there is something to do about it."""
        return self.state in ("warning", "failed")

    def took(self, seconds: float | None) -> Step:
        """The same with its duration."""
        return replace(self, seconds=seconds)


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """All steps of one cluster. `asked` is whether the brokers could be asked at all."""

    cluster: str
    bootstrap: tuple[str, ...]
    how: str
    steps: tuple[Step, ...]
    asked: bool

    @property
    def exit_code(self) -> int:
        """0 all fine, 1 something found, 2 could not ask."""
        if not self.asked:
            return 2
        return 1 if any(step.found for step in self.steps) else 0


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What one of several works came to: a result, or the error it raised; TimeoutError if it was not done in time."""

    result: T | None
    error: Exception | None
    seconds: float


def side_by_side(works: Sequence[Callable[[], T]], seconds: float) -> list[Outcome[T]]:
    """Run each work in a thread and wait so long for all of them.

    A work that is not done by then is left to itself: nothing can interrupt a name server's silence, and its daemon
    thread does not keep the process.
    """
    start = time.monotonic()
    outcomes: list[Outcome[T] | None] = [None] * len(works)

    def run(place: int, work: Callable[[], T]) -> None:
        try:
            outcomes[place] = Outcome(work(), None, time.monotonic() - start)
        except Exception as error:  # noqa: BLE001  # told as this work's outcome
            outcomes[place] = Outcome(None, error, time.monotonic() - start)

    threads = [threading.Thread(target=run, args=job, daemon=True) for job in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, start + seconds - time.monotonic()))
    late = TimeoutError(f"no answer within {seconds:.1f} s")
    return [outcome or Outcome(None, late, time.monotonic() - start) for outcome in list(outcomes)]


def plural(count: int, noun: str) -> str:
    """`1 group`, `3 groups`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
