"""Builds the command lines of JVMs that run Kafka's classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from lagwatch.demo.cds_archive import CdsArchive
from lagwatch.demo.jars import kafka_jars
from lagwatch.demo.java import find_java

# Several JVMs share the cores of a laptop: one garbage collector thread, only the quick compiler, no shared perf file.
_SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")
_LOG = "-Dorg.slf4j.simpleLogger"


class KafkaJvm:
    """Commands that run one version of Kafka. The first one locates Java, jars and CDS archive."""

    def __init__(self, version: str, heap: str, options: Sequence[str] = ()) -> None:
        self._version, self._heap, self._options = version, heap, tuple(options)

    @cached_property
    def _jars(self) -> Path:
        return kafka_jars(self._version)

    @cached_property
    def cds_archive(self) -> CdsArchive:
        return CdsArchive(self._jars, find_java())

    def node(self, jmx_port: int, archive_draft: Path | None = None) -> list[str]:
        """The command of a node without its properties file; with a draft it writes a CDS archive there on exit."""
        archive = self.cds_archive
        options = archive.options_to_make(archive_draft) if archive_draft else archive.options_to_use()
        log_time = [f"{_LOG}.showDateTime=true", f"{_LOG}.dateTimeFormat=HH:mm:ss.SSS"]
        return [*self._java(self._heap), *options, *log_time, *jmx_options(jmx_port), *self._options, "kafka.Kafka"]

    def tool(self, main_class: str) -> list[str]:
        """The command of one of Kafka's tools without its arguments."""
        return [*self._java("256m"), *self.cds_archive.options_to_use(), f"{_LOG}.defaultLogLevel=error", main_class]

    def _java(self, heap: str) -> list[str]:
        return [str(find_java()), f"-Xmx{heap}", *_SMALL, "-cp", f"{self._jars}/*"]


def jmx_options(port: int) -> list[str]:
    """JVM options that open JMX on loopback only."""
    jmx = "com.sun.management.jmxremote"
    return [
        f"-D{jmx}.host=127.0.0.1",
        f"-D{jmx}.port={port}",
        f"-D{jmx}.rmi.port={port}",
        f"-D{jmx}.authenticate=false",
        f"-D{jmx}.ssl=false",
        "-Djava.rmi.server.hostname=127.0.0.1",
    ]
