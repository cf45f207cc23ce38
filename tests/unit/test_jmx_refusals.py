"""A JMX query that is refused is reported: it never looks like a node without beans or a dead JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectors.jmx_client.jolokia import JolokiaAddress, JolokiaConnection
from collectors.jmx_client.tls import CertificateStore, use_certificates
from lagwatch.errors import SourceError


def test_a_policy_that_forbids_searching_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = JolokiaConnection(JolokiaAddress("kafka1", 8778))
    refused = [{"status": 403, "error": "java.lang.SecurityException : Request type 'search' is not allowed"}]
    monkeypatch.setattr(connection, "_post", lambda _: refused)
    with pytest.raises(SourceError, match="'search' is not allowed"):
        connection.names(["*:*"])


class Java:
    """Stands for any class of Java."""

    def __getattr__(self, _: str) -> Any:
        return self

    def __call__(self, *_: Any) -> Any:
        return self


def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        use_certificates(Java(), list, CertificateStore(tmp_path / "ca.pem"), None)
