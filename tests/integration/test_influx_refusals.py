"""Responses that a real InfluxDB gives only under load: throttling, server errors, timeouts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lagwatch.batch import make_batch
from lagwatch.catalogue import CLUSTER
from lagwatch.errors import SinkError
from lagwatch.sinks.influx.sink import InfluxOptions, InfluxSink

BATCH = make_batch(CLUSTER, "east", 1_700_000_000_000, {"brokers": [3]})
SECRET = "token-that-must-not-be-seen"


@contextmanager
def answering(status: int, body: str, headers: dict[str, str]) -> Iterator[str]:
    """A server on loopback that gives every request the same answer."""

    class FixedAnswerHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), FixedAnswerHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "headers", "retriable", "wait", "words"),
    [
        (429, {"Retry-After": "17"}, True, 17, "429"),
        (503, {"Retry-After": "soon"}, True, None, "503"),
        (500, {}, True, None, "internal trouble"),
        (401, {}, True, None, "check influxdb.token"),
        (400, {}, False, None, "internal trouble"),
        (413, {}, False, None, "internal trouble"),
    ],
)
def test_each_refusal_says_whether_to_try_again(
    status: int, headers: dict[str, str], retriable: bool, wait: float | None, words: str
) -> None:
    with answering(status, '{"code": "x", "message": "internal trouble"}', headers) as url:
        sink = InfluxSink(InfluxOptions(url, "o", "b", SECRET))
        with pytest.raises(SinkError, match=words) as caught:
            sink.write(1, [BATCH])
        sink.close()
    assert (caught.value.retriable, caught.value.retry_after_seconds) == (retriable, wait)
    assert SECRET not in str(caught.value)


def test_a_response_of_another_server_is_reported() -> None:
    with answering(502, "<html>bad gateway</html>", {}) as url:
        sink = InfluxSink(InfluxOptions(url, "o", "b", SECRET))
        with pytest.raises(SinkError, match="bad gateway"):
            sink.write(1, [BATCH])
        sink.close()


@pytest.mark.parametrize("body", ["Client sent an HTTP request to an HTTPS server.\n", "<html>400 Bad Request</html>"])
def test_a_bad_request_of_another_server_rejects_no_points(body: str) -> None:
    with answering(400, body, {}) as url:
        sink = InfluxSink(InfluxOptions(url, "o", "b", SECRET))
        with pytest.raises(SinkError, match=body.strip()) as caught:
            sink.write(1, [BATCH])
        sink.close()
    assert caught.value.retriable, "the cursor waits; nothing is set aside"


def test_a_server_that_never_responds_costs_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sink = InfluxSink(InfluxOptions(url, "o", "b", SECRET, timeout_seconds=0.5))
        with pytest.raises(SinkError, match="timed out") as caught:
            sink.write(1, [BATCH])
        sink.close()
    assert caught.value.retriable
    assert SECRET not in str(caught.value)
