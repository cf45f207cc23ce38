"""Creates keys and certificates for 127.0.0.1 with openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lagwatch.errors import LagwatchError

# The allowed uses of each kind of certificate; strict clients (Python 3.13) require all of them.
_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = unused, the command line sets it
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:localhost, IP:127.0.0.1
"""
_DAYS = "365"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of one cluster. `broker` contains key and certificate, as Kafka expects."""

    ca: Path
    wrong_ca: Path  # an authority that signed none of these
    broker: Path
    client_certificate: Path
    client_key: Path


def make_tls_files(folder: Path, client_name: str) -> TlsFiles:
    """Create an authority, certificates for brokers and one client signed by it, and a second, unrelated authority."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise LagwatchError("no openssl on PATH; a Kafka with TLS on loopback needs it. Run: apt-get install openssl")
    folder.mkdir()
    (folder / "openssl.cnf").write_text(_CONFIG)
    ca, ca_key = _authority(openssl, folder, "authority")
    wrong_ca, _ = _authority(openssl, folder, "wrong-authority")
    certificate, key = _signed(openssl, folder, "broker", "localhost", ca, ca_key)
    broker = folder / "broker.pem"
    broker.write_text(key.read_text() + certificate.read_text())
    client_certificate, client_key = _signed(openssl, folder, "client", client_name, ca, ca_key)
    return TlsFiles(ca, wrong_ca, broker, client_certificate, client_key)


def _authority(openssl: str, folder: Path, name: str) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    _run(openssl, folder, "req", "-x509", "-extensions", "authority", "-days", _DAYS, *_new_key(name, key), certificate)
    return certificate, key


def _signed(openssl: str, folder: Path, name: str, subject: str, ca: Path, ca_key: Path) -> tuple[Path, Path]:
    certificate, key, request = (folder / f"{name}.{suffix}" for suffix in ("crt", "key", "csr"))
    _run(openssl, folder, "req", *_new_key(subject, key), request)
    signer: list[str | Path] = ["-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", _DAYS]
    extensions: list[str | Path] = ["-extfile", folder / "openssl.cnf", "-extensions", "leaf"]
    _run(openssl, folder, "x509", "-req", "-in", request, *signer, *extensions, "-out", certificate)
    return certificate, key


def _new_key(subject: str, key: Path) -> list[str | Path]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    return [*curve, "-nodes", "-keyout", key, "-subj", f"/CN={subject}", "-out"]


def _run(openssl: str, folder: Path, command: str, *arguments: str | Path) -> None:
    config: list[str | Path] = ["-config", folder / "openssl.cnf"] if command == "req" else []
    done = subprocess.run(
        [openssl, command, *config, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0:
        raise LagwatchError(f"openssl {command} ended with exit code {done.returncode}: {done.stderr.strip()}")
