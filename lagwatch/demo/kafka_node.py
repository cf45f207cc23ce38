"""One Kafka node on loopback: a process that can be stopped, killed, paused and restarted."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lagwatch.demo.child_process import start_child_process
from lagwatch.demo.kafka_layout import CONTROLLER, INTERNAL, NodePlan
from lagwatch.demo.kafka_probe import brokers_known_to, responds
from lagwatch.errors import LagwatchError

_STOP_SECONDS = 30


class PortTakenError(LagwatchError):
    """Another process took a port between choosing it and binding it."""


class KafkaNode:
    """One node; it keeps its ports, data and log file across stops and kills."""

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
        self.launched = False  # expected to run: it is an error if the process ends while this is true

    @property
    def id(self) -> int:
        return self.plan.id

    @property
    def roles(self) -> tuple[str, ...]:
        return self.plan.roles

    @property
    def port(self) -> int:
        """The port for requests: the internal listener of a broker, the quorum listener of a pure controller."""
        return self.plan.ports[INTERNAL if self.plan.is_broker else CONTROLLER]

    @property
    def jmx_port(self) -> int:
        return self.plan.jmx_port

    @property
    def pid(self) -> int:
        """The process id of the JVM, also after its end."""
        if self._process is None:
            raise LagwatchError(f"Kafka node {self.id} was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process exists; also true for a paused one."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process without waiting."""
        if self.running:
            raise LagwatchError(f"Kafka node {self.id} is already running (process {self.pid})")
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = start_child_process([*self._command, self.properties_file], self.log_file)
        self.paused, self.launched = False, True

    def start(self) -> None:
        """Start it again after a stop or kill, and wait until the cluster lists it."""
        self.launch()
        self._settle()

    def stop(self) -> None:
        """Run a controlled shutdown, which moves its leaderships, and wait for it. Kills the node after 30 s."""
        self.resume()
        self.launched = False
        self._signal(signal.SIGTERM)
        try:
            self._reap(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it at once, like a power cut; also works on a paused node."""
        self.paused, self.launched = False, False
        self._signal(signal.SIGKILL)
        self._reap(_STOP_SECONDS)

    def restart(self) -> None:
        """Run a controlled shutdown and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: its ports still accept connections, but it does not respond."""
        if not self.running:
            raise LagwatchError(f"cannot pause Kafka node {self.id}: it is not running")
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """Continue a paused node."""
        self._signal(signal.SIGCONT)
        self.paused = False

    def known_brokers(self) -> frozenset[int] | None:
        """The live brokers in its metadata; empty for a pure controller; None when it does not respond."""
        if self.plan.is_broker:
            return brokers_known_to(self.port)
        return frozenset() if responds(self.port) else None

    def log_since_start(self) -> str:
        """Its log since the last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def raise_if_ended(self) -> None:
        """Raise with the error lines of its log if its process has ended; PortTakenError if a port was taken."""
        if self.running:
            return
        code = self._process.returncode if self._process else None
        log = self.log_since_start()
        taken = "Address already in use" in log or "Port already in use" in log
        raise (PortTakenError if taken else LagwatchError)(
            f"Kafka node {self.id} ({','.join(self.roles)}) ended with exit code {code}. From its log:\n{error_lines(log)}"
        )

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # does nothing after the process was reaped

    def _reap(self, seconds: float) -> None:
        if self._process is not None:
            self._process.wait(seconds)


def error_lines(log: str, count: int = 20) -> str:
    """The relevant lines of a node's log: from the first error on, else the last ones."""
    lines = log.splitlines()
    first = next((at for at, line in enumerate(lines) if re.search(r"\bERROR\b|Exception|Error:", line)), len(lines))
    start = min(first, max(len(lines) - count, 0))
    return "\n".join(lines[start : start + count])


def wait_until(done: Callable[[], bool], seconds: float, every: float = 0.1) -> bool:
    """Poll `done` until it is true; False when the time is up first."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
