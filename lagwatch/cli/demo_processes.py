"""Starts and stops the processes of the demo: Kafka, its clients, InfluxDB and the agent."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from lagwatch.demo.broker_restarter import BrokerRestarter
from lagwatch.demo.child_process import FolderRemover, start_child_process
from lagwatch.demo.influxd import Influxd, find_influxd
from lagwatch.demo.jars import kafka_jars
from lagwatch.demo.java import find_java
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.kafka_layout import port_chooser
from lagwatch.demo.workload import TOPICS, Workload, create_topics
from lagwatch.errors import LagwatchError

ReportProgress = Callable[[str], None]

CLUSTER_NAME = "demo"
POLL_SECONDS = 5
DEMO_VARIABLE = "LAGWATCH_DEMO_TOKEN"  # secrets are given as environment variables, also in the demo
_AGENT_STOP_SECONDS = 5.0
_CLIENTS_STOP_SECONDS = 3.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class DemoProcesses:
    """The running processes of the demo."""

    kafka: KafkaCluster
    restarter: BrokerRestarter
    agent: subprocess.Popen[bytes]
    folder: Path
    influx: Influxd | None = None

    @property
    def journal(self) -> Path:
        """The agent's journal."""
        return self.folder / "journal.db"

    def supervise(self, now: float) -> None:
        """Restart killed brokers. Raises LagwatchError when the agent has ended."""
        self.restarter.restart_due(now)
        code = self.agent.poll()
        if code is not None:
            tail = "\n".join((self.folder / "agent.log").read_text(errors="replace").splitlines()[-5:])
            raise LagwatchError(f"the demo's agent ended with code {code}. Its last log lines:\n{tail}")


@contextmanager
def interrupt_on_signals() -> Iterator[Callable[[], None]]:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt once; a second one does not interrupt the cleanup.

    Yields a function that ignores signals from then on.
    """

    def ignore() -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def end(_number: int, _frame: FrameType | None) -> None:
        ignore()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield ignore
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def start_demo(version: str, keep: Path | None, report_progress: ReportProgress) -> Iterator[DemoProcesses]:
    """Start everything and report each step; stop it at the end of the `with` block. Raises LagwatchError."""
    find_java()  # before anything is downloaded for it
    kafka_jars(version)
    with ExitStack() as stack:
        folder = stack.enter_context(demo_folder(keep))
        _log_clients_to(folder / "clients.log")
        report_progress(f"starting three brokers of Kafka {version}")
        kafka = stack.enter_context(KafkaCluster(3, version=version))
        report_progress(f"creating the topics {', '.join(topic.name for topic in TOPICS)}")
        create_topics(kafka)
        report_progress("starting producers, consumer groups and the agent")
        config = folder / "lagwatch.yml"
        influx = _influxd(stack, report_progress)
        jmx_ports = {node.id: node.jmx_port for node in kafka.nodes.values()}
        config.write_text(agent_config(kafka.bootstrap, influx, jmx_ports))
        workload = Workload(kafka)
        stack.callback(workload.stop, _CLIENTS_STOP_SECONDS)
        os.environ[DEMO_VARIABLE] = Influxd.token
        agent = start_child_process([sys.executable, "-m", "lagwatch.cli", "run", config], folder / "agent.log")
        stack.callback(_stop_process, agent, _AGENT_STOP_SECONDS)
        restarter = BrokerRestarter(lambda: list(kafka.nodes.values()))
        stack.callback(report_progress, "stopping the clients, the agent and Kafka")
        yield DemoProcesses(kafka, restarter, agent, folder, influx)


def _influxd(stack: ExitStack, report_progress: ReportProgress) -> Influxd | None:
    """An InfluxDB, where there is a binary; else None: the journal is enough."""
    binary = find_influxd()
    if binary is None:
        report_progress(
            "no influxd on PATH or in LAGWATCH_INFLUXD: the demo runs without InfluxDB; `make test` builds one"
        )
        return None
    report_progress(f"starting InfluxDB ({binary})")
    return stack.enter_context(Influxd(binary, port_chooser()))


def agent_config(bootstrap: str, influx: Influxd | None = None, jmx_ports: Mapping[int, int] | None = None) -> str:
    """The configuration file of the demo's agent."""
    section = (
        f"influxdb: {{url: '{influx.url}', org: {influx.org}, bucket: {influx.bucket}, token: '${{{DEMO_VARIABLE}}}'}}\n"
        if influx
        else ""
    )
    ports = ", ".join(f"{node}: '127.0.0.1:{port}'" for node, port in (jmx_ports or {}).items())
    jmx = f"    jmx: {{brokers: {{{ports}}}}}\n" if ports else ""
    return f"""\
# Written by `lagwatch demo`.
{section}\
agent: {{name: {CLUSTER_NAME}}}
journal: {{path: journal.db, history: 2h, max_size: 256MiB}}
clusters:
  - name: {CLUSTER_NAME}
    bootstrap: {bootstrap}
    deadline: 3s
    intervals: {{kafka: {POLL_SECONDS}s, quorum: {POLL_SECONDS}s, configs: 1m, logdirs: 30s, jmx: 10s}}
{jmx}"""


@contextmanager
def demo_folder(keep: Path | None) -> Iterator[Path]:
    """The folder to keep, or a temporary one."""
    if keep is not None:
        if (keep / "journal.db").exists():
            raise LagwatchError(f"--keep: {keep} has the journal of an earlier demo; use another folder")
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LagwatchError(f"--keep: {keep} cannot be created: {error.strerror}") from None
        yield keep.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="lagwatch-demo-"))
    remover = FolderRemover(folder)  # removes it after a `kill -9` as well
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        remover.cancel()


def _log_clients_to(file: Path) -> None:
    """Send the log of the clients to a file instead of the screen."""
    handler = logging.FileHandler(file, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    for name in ("kafka", "lagwatch.demo"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False


def _stop_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Terminate a process; kill it when that takes too long."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
