"""One Kafka node on loopback: a plan enters, a process that can be stopped, killed, paused and started again leaves."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lagwatch.demo.child_process import start_on_leash
from lagwatch.demo.kafka_layout import CONTROLLER, INTERNAL, NodePlan
from lagwatch.demo.kafka_probe import answers, brokers_known_to
from lagwatch.errors import LagwatchError

_STOP_SECONDS = 30


class PortTakenError(LagwatchError):
    """Another process took a port between choosing it and binding it."""


class KafkaNode:
    """One node: after `launch` it has a process, and keeps its ports, data and log file over stops and kills."""

    def __init__(
        self,
        plan: NodePlan,
        folder: Path,
        command: Sequence[str],
        settle: Callable[[], None],
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.log_file = folder / "node.log"
        self.data = folder / "data"
        self.properties_file = folder / "server.properties"
        self.paused = False
        self._command, self._settle = tuple(command), settle
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.launched = False  # meant to be up: a process that ends by itself while this is true is a fault

    @property
    def id(self) -> int:
        return self.plan.id

    @property
    def roles(self) -> tuple[str, ...]:
        return self.plan.roles

    @property
    def port(self) -> int:
        """Where it is asked: the internal listener of a broker, the quorum's of a pure controller."""
        return self.plan.ports[INTERNAL if self.plan.is_broker else CONTROLLER]

    @property
    def jmx_port(self) -> int:
        return self.plan.jmx_port

    @property
    def pid(self) -> int:
        """The process id of the JVM, the last one if it has ended."""
        if self._process is None:
            raise LagwatchError(f"Kafka node {self.id} was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused one does."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process and return at once."""
        if self.running:
            raise LagwatchError(f"Kafka node {self.id} is running already (process {self.pid})")
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = start_on_leash([*self._command, self.properties_file], self.log_file)
        self.paused, self.launched = False, True

    def start(self) -> None:
        """Start it again after a stop or kill, and wait until the cluster counts on it."""
        self.launch()
        self._settle()

    def stop(self) -> None:
        """Ask it to shut down in order, handing its leaderships over, and wait for that. Kills it after 30 s."""
        self.resume()
        self.launched = False
        self._signal(signal.SIGTERM)
        try:
            self._reap(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would; works on a paused one too."""
        self.paused, self.launched = False, False
        self._signal(signal.SIGKILL)
        self._reap(_STOP_SECONDS)

    def restart(self) -> None:
        """Stop it in order and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: its ports still accept connections, but nothing answers."""
        if not self.running:
            raise LagwatchError(f"Kafka node {self.id} is not running, so it cannot be paused")
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """Let a paused node go on."""
        self._signal(signal.SIGCONT)
        self.paused = False

    def brokers_it_knows(self) -> frozenset[int] | None:
        """The brokers it calls alive; for a pure controller the empty set; None when it does not answer."""
        if self.plan.is_broker:
            return brokers_known_to(self.port)
        return frozenset() if answers(self.port) else None

    def log_since_start(self) -> str:
        """What it logged since it was last started."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def raise_if_ended(self) -> None:
        """Raise with the telling lines of its log if its process is gone; PortTakenError if that is why."""
        if self.running:
            return
        code = self._process.returncode if self._process else None
        log = self.log_since_start()
        taken = "Address already in use" in log or "Port already in use" in log
        raise (PortTakenError if taken else LagwatchError)(
            f"Kafka node {self.id} ({','.join(self.roles)}) ended with code {code}. From its log:\n{telling_lines(log)}"
        )

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # does nothing once the process is known to have ended

    def _reap(self, seconds: float) -> None:
        if self._process is not None:
            self._process.wait(seconds)


def telling_lines(log: str, count: int = 20) -> str:
    """The lines of a node's log that say what went wrong: from the first error on, else the last ones."""
    lines = log.splitlines()
    first = next((at for at, line in enumerate(lines) if re.search(r"\bERROR\b|Exception|Error:", line)), len(lines))
    start = min(first, max(len(lines) - count, 0))
    return "\n".join(lines[start : start + count])


def wait_until(done: Callable[[], bool], seconds: float, every: float = 0.1) -> bool:
    """Ask again and again until it is true; False when the time is over first."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
