"""Starts the gateway's JVM as a child process that ends with this process."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from collectors.jmx_client.java import find_java
from collectors.jmx_client.tls import CertificateStore
from lagwatch.errors import SourceError

_START_SECONDS = 30.0
CALLS_PER_CONNECTION = 4  # in sequence, each with an RMI timeout of its own, when a connection is opened
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError",
        "-XX:MaxMetaspaceSize=64m", "-XX:ReservedCodeCacheSize=32m", "-Xss512k", "-Djava.awt.headless=true")  # fmt: skip


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How to start the JVM. `trust_store` and `key_store` are for JMX over TLS."""

    java: Path | None = None
    heap_bytes: int = 128 * 2**20
    deadline_seconds: float = 5.0
    trust_store: CertificateStore | None = None
    key_store: CertificateStore | None = None


def launch(options: GatewayOptions, jars: Sequence[str]) -> tuple[int, str, subprocess.Popen[bytes]]:
    """Start py4j's server; returns its port, its token and its process. Raises SourceError with Java's message."""
    java = find_java(options.java)
    limit_ms = max(250, round(options.deadline_seconds * 1000 / CALLS_PER_CONNECTION))
    limits = [f"-Dsun.rmi.transport.tcp.{name}Timeout={limit_ms}" for name in ("handshake", "response")]
    command = [
        str(java),
        f"-Xmx{options.heap_bytes // 2**20}m",
        *_JVM,
        *limits,
        "-cp",
        os.pathsep.join(jars),
        "py4j.GatewayServer",
    ]
    with tempfile.TemporaryFile("w+") as stderr:
        try:
            process = subprocess.Popen(
                [*command, "--die-on-broken-pipe", "--enable-auth", "0"],
                stdin=subprocess.PIPE,  # the JVM ends when this pipe closes
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C in a terminal must not reach the JVM
            )
        except OSError as error:
            raise SourceError(f"the JVM for JMX did not start with {java}: {error.strerror}") from None
        lines = _first_lines(process, 2, _START_SECONDS)
        if len(lines) == 2 and lines[0].isdigit():
            return int(lines[0]), lines[1], process
        kill(process)
        stderr.seek(0)
        why = " ".join(stderr.read().split())[:300] or "no answer in time"
        raise SourceError(f'the JVM for JMX did not start with {java}: "{why}"')


def _first_lines(process: subprocess.Popen[bytes], count: int, seconds: float) -> list[str]:
    """The first lines a process prints; fewer if it ends or `seconds` pass before."""
    if process.stdout is None:
        return []
    pipe, until, text = process.stdout.fileno(), time.monotonic() + seconds, b""
    while text.count(b"\n") < count and select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(pipe, 4096)
        if not part:
            break
        text += part
    return text.decode().splitlines()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
