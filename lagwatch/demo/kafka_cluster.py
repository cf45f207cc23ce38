"""Runs a real Kafka cluster on loopback for the demo and the tests.

It uses KRaft, keeps its data in a temporary folder, listens on 127.0.0.1 only, and ends with the `with` block or with this
process, whichever is first.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lagwatch.demo.child_process import FolderRemover
from lagwatch.demo.kafka_access import KafkaAccess
from lagwatch.demo.kafka_contents import KafkaContents
from lagwatch.demo.kafka_jvm import KafkaJvm
from lagwatch.demo.kafka_layout import (
    CONTROLLER,
    INTERNAL,
    NodePlan,
    as_properties,
    kafka_uuid,
    meta_properties,
    node_settings,
    plan_nodes,
    port_chooser,
)
from lagwatch.demo.kafka_node import KafkaNode, PortTakenError, error_lines, wait_until
from lagwatch.demo.kafka_security import PROTOCOLS, ClusterSecurity, security_settings
from lagwatch.demo.tls_files import TlsFiles, make_tls_files
from lagwatch.errors import LagwatchError

NEWEST_KAFKA = "4.3.1"
_START_SECONDS = 90
_ATTEMPTS = 5


class KafkaCluster(KafkaContents, KafkaAccess):
    """A cluster that runs inside a `with` block.

    Brokers have the ids 1, 2, ... `controllers` is the number of separate controllers, with the ids 101, 102, ...; without
    any the first three brokers (the first, if there are fewer than three) are controllers as well.
    `secure` adds the listeners of kafka_security.py and Kafka's authorizer.
    `settings` apply to every node, `settings_of` to one; both override the defaults. So do `java_options`, for every node.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        controllers: int = 0,
        version: str = NEWEST_KAFKA,
        secure: ClusterSecurity | None = None,
        settings: Mapping[str, str] | None = None,
        settings_of: Mapping[int, Mapping[str, str]] | None = None,
        heap: str = "256m",
        java_options: Sequence[str] = (),
        choose_port: Callable[[], int] | None = None,
    ) -> None:
        self.version = version
        self.cluster_id = kafka_uuid()
        self.nodes: dict[int, KafkaNode] = {}
        self._brokers, self._controllers = brokers, controllers
        self._jvm, self._choose_port = KafkaJvm(version, heap, java_options), choose_port or port_chooser()
        self._settings, self._settings_of = dict(settings or {}), dict(settings_of or {})
        self._secure = secure
        self._protocols = {INTERNAL: "PLAINTEXT", **(PROTOCOLS if secure else {})}
        self._tls: TlsFiles | None = None
        self._folder: Path | None = None
        self._started = False

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """The folder of data and logs while it runs."""
        if self._folder is None:
            raise LagwatchError("the Kafka cluster is not running")
        return self._folder

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses of all brokers, running or not."""
        return self.bootstrap_of(INTERNAL)

    @property
    def live_brokers(self) -> dict[int, str]:
        """The addresses of the brokers that run and are not paused, by id."""
        return {node.id: f"127.0.0.1:{node.port}" for node in self.brokers if node.running and not node.paused}

    def bootstrap_of(self, listener: str) -> str:
        """The bootstrap addresses of one listener: SASL_SSL, SASL_PLAINTEXT or SSL of a secured cluster."""
        return ",".join(f"127.0.0.1:{node.plan.ports[listener]}" for node in self.brokers)

    @property
    def secure_bootstrap(self) -> str:
        """The bootstrap addresses for clients with a password and TLS."""
        return self.bootstrap_of("SASL_SSL")

    @property
    def tls(self) -> TlsFiles:
        """The certificate files of a secured cluster."""
        if self._tls is None:
            raise LagwatchError("this Kafka cluster has no TLS; start it with secure=Security()")
        return self._tls

    @property
    def ca_file(self) -> Path:
        """The authority that signed the brokers' certificates."""
        return self.tls.ca

    @property
    def wrong_ca_file(self) -> Path:
        """An authority that signed no certificate of this cluster."""
        return self.tls.wrong_ca

    @property
    def brokers(self) -> list[KafkaNode]:
        """The nodes that are brokers."""
        return [node for node in self.nodes.values() if node.plan.is_broker]

    def node(self, node_id: int) -> KafkaNode:
        """One node by id."""
        return self.nodes[node_id]

    def start(self) -> None:
        """Start all nodes and wait until every broker lists all brokers."""
        self._folder = Path(tempfile.mkdtemp(prefix="lagwatch-kafka-"))
        self._remover = FolderRemover(self._folder)
        if self._secure:
            self._tls = make_tls_files(self._folder / "tls", self._secure.certificate_name)
        formatted = self._format()
        for attempt in range(1, _ATTEMPTS + 1):
            self._lay_out(formatted)
            for node in self.nodes.values():
                node.launch()
            try:
                self.wait_for_brokers({node.id for node in self.brokers})
            except PortTakenError:
                self._kill_all()
                if attempt == _ATTEMPTS:
                    raise
            else:
                self._started = True
                return

    def stop(self) -> None:
        """Kill all running nodes and remove the folder. May be called at any time, and repeatedly."""
        try:
            self._make_cds_archive()
        finally:
            self._kill_all()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._remover.cancel()
                self._folder = None

    def heal(self) -> None:
        """Resume paused nodes, start stopped ones, and wait until every broker lists all brokers."""
        for node in self.nodes.values():
            if node.paused:
                node.resume()
            if not node.running:
                node.launch()
        self.wait_for_brokers({node.id for node in self.brokers})

    def settle(self) -> None:
        """Wait until the live brokers list exactly each other; the loss of a broker takes about 4 s to be noticed."""
        self.wait_for_brokers(set(self.live_brokers))

    def wait_for_brokers(self, expected: set[int], seconds: float = _START_SECONDS) -> None:
        """Wait until every running node responds, and every running broker lists exactly the expected brokers.

        Raises with lines of a node's log when a node ends meanwhile or the time is up.
        """

        def waiting_for() -> KafkaNode | None:
            for node in self.nodes.values():
                if node.paused or not node.launched:
                    continue
                node.raise_if_ended()
                if node.known_brokers() != (expected if node.plan.is_broker else frozenset()):
                    return node
            return None

        if not wait_until(lambda: waiting_for() is None, seconds):
            slow = waiting_for()
            if slow is not None:
                knows = slow.known_brokers()
                state = "does not respond" if knows is None else f"lists the brokers {sorted(knows)}"
                raise LagwatchError(
                    f"Kafka node {slow.id} {state} after {seconds} s, but the brokers {sorted(expected)} are expected. "
                    f"From its log:\n{error_lines(slow.log_since_start())}"
                )

    def tool(self, main_class: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own command-line classes against this cluster; its exit code is the caller's to check."""
        where = ["--bootstrap-server", ",".join(self.live_brokers.values())]
        command = [*self._jvm.tool(main_class), *where, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)

    def _format(self) -> Path:
        """Format one data folder; every node gets a copy, which saves a JVM start per node."""
        data, properties = self.folder / "formatted", self.folder / "format.properties"
        plan = NodePlan(1, ("broker", "controller"), {INTERNAL: 9092, CONTROLLER: 9093}, 0)
        properties.write_text(as_properties(node_settings(plan, [plan], {INTERNAL: "PLAINTEXT"}, data)))
        command = [*self._jvm.tool("kafka.tools.StorageTool"), "format", "-t", self.cluster_id, "-c", str(properties)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_START_SECONDS)
        if done.returncode != 0:
            raise LagwatchError(f"Kafka {self.version} could not format {data}: {done.stdout}{done.stderr}")
        return data

    def _lay_out(self, formatted: Path) -> None:
        """Write a new folder for each node: settings with free ports, and formatted data."""
        plans = plan_nodes(self._brokers, self._controllers, list(self._protocols), self._choose_port)
        security = security_settings(self._secure, self._tls) if self._secure and self._tls else {}
        for plan in plans:
            makes_archive = plan.id == 1 and not self._jvm.cds_archive.exists
            command = self._jvm.node(plan.jmx_port, self._archive_draft if makes_archive else None)
            node = KafkaNode(plan, self.folder / f"node-{plan.id}", command, self.settle)
            shutil.rmtree(node.folder, ignore_errors=True)
            shutil.copytree(formatted, node.data)
            (node.data / "meta.properties").write_text(meta_properties(self.cluster_id, plan.id))
            settings = node_settings(plan, plans, self._protocols, node.data)
            settings |= security | self._settings | dict(self._settings_of.get(plan.id, {}))
            node.properties_file.write_text(as_properties(settings))
            self.nodes[plan.id] = node

    @property
    def _archive_draft(self) -> Path:
        return self.folder / "classes.jsa"

    def _make_cds_archive(self) -> None:
        """Stop node 1 orderly if it has to write a CDS archive; only in a complete cluster, where that is quick."""
        whole = self._started and all(node.running and not node.paused for node in self.nodes.values())
        if whole and not self._jvm.cds_archive.exists:
            self.node(1).stop()
            self._jvm.cds_archive.adopt(self._archive_draft)
        self._started = False

    def _kill_all(self) -> None:
        for node in self.nodes.values():
            node.kill()
