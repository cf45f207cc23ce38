"""The settings of a secured cluster on loopback, and its certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from lagwatch.demo.kafka_security import ClusterSecurity, plain_logins, security_settings
from lagwatch.demo.tls_files import TlsFiles, make_tls_files
from lagwatch.errors import LagwatchError


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ({}, " required;"),
        ({"ann": "secret"}, ' required user_ann="secret";'),
        ({"ann": "a", "bob": 'say "\\"'}, ' required user_ann="a" user_bob="say \\"\\\\\\"";'),
    ],
)
def test_plain_passwords_are_quoted_as_jaas_wants_them(users: dict[str, str], expected: str) -> None:
    assert plain_logins(users) == "org.apache.kafka.common.security.plain.PlainLoginModule" + expected


def test_only_the_internal_listener_needs_no_proof_and_is_super_user() -> None:
    files = TlsFiles(*(Path(name) for name in ("ca", "wrong", "broker", "client", "key")))

    settings = security_settings(ClusterSecurity(), files)

    assert settings["super.users"] == "User:ANONYMOUS"
    assert settings["listener.name.ssl.ssl.client.auth"] == "required"
    for listener in ("sasl_ssl", "sasl_plaintext"):
        assert settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] == "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"


def test_certificates_are_accepted_by_a_strict_reader(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path / "tls", "lagwatch")

    trust = ssl.create_default_context(cafile=str(files.ca))
    trust.load_cert_chain(files.client_certificate, files.client_key)

    [authority] = trust.get_ca_certs()
    assert authority["subject"] == ((("commonName", "authority"),),)
    assert files.broker.read_text().startswith("-----BEGIN PRIVATE KEY-----")  # PKCS#8, the only kind Kafka reads


def test_without_openssl_the_error_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(LagwatchError, match="apt-get install openssl"):
        make_tls_files(tmp_path / "tls", "lagwatch")
