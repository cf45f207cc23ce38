"""Runs the behaviours of demo clients, each in its own thread, and restarts them after errors.

A `Behaviour` defines what a client does; `ClientThread` keeps it running while brokers fail and recover.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_STOP_SECONDS = 5.0
_CHECK_SECONDS = 0.2


class RunContext:
    """How long a behaviour has run, over all its attempts, and whether it has to stop."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._started = time.monotonic()

    @property
    def elapsed_seconds(self) -> float:
        """Time since the first attempt started."""
        return time.monotonic() - self._started

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, at most until a stop is requested. False once it is."""
        return not self._stop.wait(max(0.0, seconds))

    def stop(self) -> None:
        """Request a stop."""
        self._stop.set()


class Behaviour(Protocol):
    """What a client does until a stop is requested; it may finish earlier by returning.

    If it raises, it is run again a second later with the same context. So it opens and closes its clients in `run`, and
    takes its progress from `context.elapsed_seconds`.
    """

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Run until a stop is requested."""


class GroupBehaviour(Behaviour, Protocol):
    """A behaviour that is one member of a consumer group."""

    @property
    def group(self) -> str:
        """The group's id."""


class HasBootstrap(Protocol):
    """A cluster that clients can connect to."""

    @property
    def bootstrap(self) -> str:
        """Addresses of brokers, host:port,host:port."""


class ClientThread:
    """A behaviour that runs in a thread, restarted after errors."""

    def __init__(self, behaviour: Behaviour, kafka: HasBootstrap) -> None:
        self.behaviour = behaviour
        self.failures = 0
        self._context, self._bootstrap = RunContext(), kafka.bootstrap
        # Daemon: a client that hangs in a call must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=type(behaviour).__name__, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def stop(self, seconds: float = _STOP_SECONDS) -> bool:
        """Stop and wait. False when the thread still runs after `seconds`."""
        self.request_stop()
        self._thread.join(max(0.0, seconds))
        return not self.alive

    def request_stop(self) -> None:
        """Request a stop without waiting."""
        self._context.stop()

    def _run(self) -> None:
        while not self._context.stopping:
            try:
                self.behaviour.run(self._bootstrap, self._context)
            except Exception:  # whatever the client raises: brokers are killed under it on purpose
                self.failures += 1
                log.warning("client failed, restarting: behaviour=%s", self.behaviour, exc_info=True)
                self._context.wait(_RETRY_SECONDS)
            else:
                return


def finish_within(seconds: float, context: RunContext, work: Callable[[], None]) -> None:
    """Run `work` in a thread that is abandoned after `seconds` or on a stop, for calls without a timeout.

    Raises what `work` raises, or TimeoutError.
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
    while thread.is_alive() and time.monotonic() < deadline and not context.stopping:
        thread.join(_CHECK_SECONDS)
    thread.join(_CHECK_SECONDS)
    if raised:
        raise raised[0]
    if thread.is_alive():
        raise TimeoutError(f"not finished within {seconds:.0f} s")


def stop_all(threads: Sequence[ClientThread], seconds: float = _STOP_SECONDS) -> bool:
    """Stop all threads in parallel. False when one still runs after `seconds`."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.request_stop()
    stopped = [thread.stop(deadline - time.monotonic()) for thread in threads]
    return all(stopped)


@contextmanager
def running(behaviours: Behaviour | Iterable[Behaviour], kafka: HasBootstrap) -> Iterator[list[ClientThread]]:
    """Runs one or several behaviours for the duration of a `with` block."""
    wanted = list(behaviours) if isinstance(behaviours, Iterable) else [behaviours]
    started: list[ClientThread] = []
    try:
        for behaviour in wanted:
            started.append(ClientThread(behaviour, kafka))  # noqa: PERF401  # those already started are stopped on an error
        yield started
    finally:
        stop_all(started)
