"""A forwarding HTTP proxy on loopback that records its targets."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit


@contextmanager
def forwarding_proxy() -> Iterator[tuple[str, list[str]]]:
    """The address of the proxy and the servers it connected to."""
    seen: list[str] = []

    class ForwardingHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            target = urlsplit(self.path)
            seen.append(f"{target.scheme}://{target.netloc}")
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = urllib.request.Request(self.path, body)  # noqa: S310
            for name, value in self.headers.items():
                request.add_header(name, value)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(request, timeout=10) as answer:
                self.send_response(answer.status)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), ForwardingHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()
