"""The process behind the gateway: options enter, a small JVM that ends with this process leaves."""

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
from collectors.jmx_client.tls import Store
from lagwatch.errors import SourceError

_START_SECONDS = 30.0
_CALLS = 4  # a hung peer costs up to so many RMI time limits one after the other
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError",
        "-XX:MaxMetaspaceSize=64m", "-XX:ReservedCodeCacheSize=32m", "-Xss512k", "-Djava.awt.headless=true")  # fmt: skip


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How the JVM is started. `trusts` and `own` are whom it believes and who it is, where JMX uses TLS."""

    java: Path | None = None
    heap_bytes: int = 128 * 2**20
    deadline_seconds: float = 5.0
    trusts: Store | None = None
    own: Store | None = None


def launch(options: GatewayOptions, jars: Sequence[str]) -> tuple[int, str, subprocess.Popen[bytes]]:
    """Start py4j's server; its port, the token it made up, and its process. Raises SourceError with what Java said."""
    java = find_java(options.java)
    limit_ms = max(250, round(options.deadline_seconds * 1000 / _CALLS))
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
    with tempfile.TemporaryFile("w+") as said:
        try:
            process = subprocess.Popen(
                [*command, "--die-on-broken-pipe", "--enable-auth", "0"],
                stdin=subprocess.PIPE,  # the JVM ends when this pipe does, so with us
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,  # Ctrl-C in a terminal is for us
            )
        except OSError as error:
            raise SourceError(f"the JVM that carries JMX did not start with {java}: {error.strerror}") from None
        lines = _first_lines(process, 2, _START_SECONDS)
        if len(lines) == 2 and lines[0].isdigit():
            return int(lines[0]), lines[1], process
        end(process)
        said.seek(0)
        why = " ".join(said.read().split())[:300] or "no answer in time"
        raise SourceError(f'the JVM that carries JMX did not start with {java}: "{why}"')


def _first_lines(process: subprocess.Popen[bytes], count: int, seconds: float) -> list[str]:
    """The first lines a process prints; fewer when it ends, or when so long has passed."""
    if process.stdout is None:
        return []
    pipe, until, text = process.stdout.fileno(), time.monotonic() + seconds, b""
    while text.count(b"\n") < count and select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(pipe, 4096)
        if not part:
            break
        text += part
    return text.decode().splitlines()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and let go of its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
