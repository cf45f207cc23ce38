"""Behaviours of clients, each in a thread of its own: a description enters, something that can be stopped leaves.

What a client does is a `Behaviour`; that it goes on while brokers die and come back is the business of this file.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
_STOP_SECONDS = 5.0
_LOOK_SECONDS = 0.2


class ClientThread:
    """The time a behaviour has: for how long it has run, over all its attempts, and whether it goes on."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since it began."""
        return time.monotonic() - self._started

    @property
    def over(self) -> bool:
        """Whether it was asked to stop."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than it lives. True while it goes on."""
        return not self._ended.wait(max(0.0, seconds))

    def end(self) -> None:
        """Ask it to stop."""
        self._ended.set()


class Behaviour(Protocol):
    """What a client does until its life is over. It may return earlier, and then is done.

    It may raise: then it is run again a second later, with the same life. So it opens its clients in `run`, closes them
    there, and asks `life.seconds` how far it is.
    """

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Do it."""


class GroupMember(Behaviour, Protocol):
    """A behaviour that is one member of a consumer group."""

    @property
    def group(self) -> str:
        """The group's id."""


class HasBootstrap(Protocol):
    """A cluster that clients can be pointed at."""

    @property
    def bootstrap(self) -> str:
        """Addresses of brokers, host:port,host:port."""


class Running:
    """A behaviour that runs."""

    def __init__(self, behaviour: Behaviour, kafka: HasBootstrap) -> None:
        self.behaviour = behaviour
        self.failures = 0
        self._life, self._bootstrap = ClientThread(), kafka.bootstrap
        # A client that hangs in a call must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=type(behaviour).__name__, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it still does something."""
        return self._thread.is_alive()

    def stop(self, seconds: float = _STOP_SECONDS) -> bool:
        """Ask it to stop and wait for that. False when it still hangs after so long."""
        self.ask_to_stop()
        self._thread.join(max(0.0, seconds))
        return not self.alive

    def ask_to_stop(self) -> None:
        """Ask it to stop and return at once."""
        self._life.end()

    def _run(self) -> None:
        while not self._life.over:
            try:
                self.behaviour.run(self._bootstrap, self._life)
            except Exception:  # whatever the client raises: brokers are killed under it on purpose
                self.failures += 1
                log.warning("begins again: %s", self.behaviour, exc_info=True)
                self._life.wait(_AGAIN_SECONDS)
            else:
                return


def finish_within(seconds: float, life: ClientThread, work: Callable[[], None]) -> None:
    """Do it in a thread that is abandoned when it takes longer or life is over, for calls that know no time limit.

    Raises what the work raises, or TimeoutError.
    """
    raised: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
            raised.append(error)

    thread = threading.Thread(target=attempt, name="finish_within", daemon=True)
    thread.start()
    deadline = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < deadline and not life.over:
        thread.join(_LOOK_SECONDS)
    thread.join(_LOOK_SECONDS)
    if raised:
        raise raised[0]
    if thread.is_alive():
        raise TimeoutError(f"not done within {seconds:.0f} s")


def stop_all(all_running: Sequence[Running], seconds: float = _STOP_SECONDS) -> bool:
    """Stop them side by side. False when one still hangs after so long."""
    deadline = time.monotonic() + seconds
    for running_one in all_running:
        running_one.ask_to_stop()
    stopped = [running_one.stop(deadline - time.monotonic()) for running_one in all_running]
    return all(stopped)


@contextmanager
def running(behaviours: Behaviour | Iterable[Behaviour], kafka: HasBootstrap) -> Iterator[list[Running]]:
    """One or several behaviours for the length of a `with` block."""
    wanted = list(behaviours) if isinstance(behaviours, Iterable) else [behaviours]
    started: list[Running] = []
    try:
        for behaviour in wanted:
            started.append(Running(behaviour, kafka))  # noqa: PERF401  # those already started are stopped on an error
        yield started
    finally:
        stop_all(started)
