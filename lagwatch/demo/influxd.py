"""Runs a real InfluxDB on loopback, if an influxd binary is available."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lagwatch.demo.child_process import start_child_process
from lagwatch.demo.jars import cache_folder
from lagwatch.demo.tls_files import TlsFiles
from lagwatch.errors import LagwatchError

VERSION = "2.7.12"
FLUX_VERSION = "0.196.1"
_READY_SECONDS = 30


def cached_influxd() -> Path:
    """The path of the binary that `make test` builds."""
    return cache_folder() / f"influxd-{VERSION}-flux-{FLUX_VERSION}" / "influxd"


def find_influxd() -> Path | None:
    """The binary in LAGWATCH_INFLUXD, the one on PATH, or the cached one; None without any."""
    named = os.environ.get("LAGWATCH_INFLUXD")
    if named:
        if not os.access(named, os.X_OK):
            raise LagwatchError(f"LAGWATCH_INFLUXD is {named}, which is not executable")
        return Path(named)
    on_path = shutil.which("influxd")
    if on_path:
        return Path(on_path)
    return cached_influxd() if cached_influxd().exists() else None


class Influxd:
    """An influxd process with data in a temporary folder, initialised with one organisation, bucket and token."""

    org, bucket = "lagwatch", "kafka"
    token, password = "lagwatch-demo-token", "lagwatch-demo"  # valid for this server on loopback only

    def __init__(self, binary: Path, choose_port: Callable[[], int], tls: TlsFiles | None = None) -> None:
        self._binary = binary
        self._tls = tls
        self.port = choose_port()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._trust = ssl.create_default_context(cafile=tls.ca) if tls else None
        self._folder = Path(tempfile.mkdtemp(prefix="lagwatch-influxd-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
            self._set_up()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until it responds; after `kill` it has the same data."""
        data = self._folder
        self._process = start_child_process(
            [
                str(self._binary),
                f"--http-bind-address=127.0.0.1:{self.port}",
                f"--bolt-path={data / 'influxd.bolt'}",
                f"--sqlite-path={data / 'influxd.sqlite'}",
                f"--engine-path={data / 'engine'}",
                "--reporting-disabled",
                *([f"--tls-cert={self._tls.broker}", f"--tls-key={self._tls.broker}"] if self._tls else []),
            ],
            data / "influxd.log",
        )
        until = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            if time.monotonic() > until or self._process.poll() is not None:
                tail = (data / "influxd.log").read_text(errors="replace")[-1000:]
                raise LagwatchError(f"influxd did not start: {tail}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop it and remove its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def api_request(self, path: str, body: Any = None, *, method: str | None = None, token: str | None = None) -> Any:
        """Send one API request with a JSON or Flux body; returns JSON or text."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else None
        kind = "application/vnd.flux" if isinstance(body, str) else "application/json"
        request = urllib.request.Request(self.url + path, data, method=method)  # noqa: S310  # always loopback
        request.add_header("Authorization", f"Token {token or self.token}")
        request.add_header("Content-Type", kind)
        with urllib.request.urlopen(request, timeout=60, context=self._trust) as answer:  # noqa: S310
            text = answer.read().decode()
            return json.loads(text) if answer.headers.get_content_type() == "application/json" and text else text

    def query(self, flux: str) -> str:
        """The result of a Flux query as annotated CSV."""
        return str(self.api_request(f"/api/v2/query?org={self.org}", flux))

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=1, context=self._trust) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _set_up(self) -> None:
        body = {
            "username": "lagwatch",
            "password": self.password,
            "org": self.org,
            "bucket": self.bucket,
            "token": self.token,
        }
        self.api_request("/api/v2/setup", body)
