"""Finding a Java that is new enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagwatch.demo.java import feature_version, find_java
from lagwatch.errors import LagwatchError


@pytest.mark.parametrize(
    ("banner", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),  # how Java counted before 9
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', 25),
        ("The program 'java' is not installed", None),
    ],
)
def test_the_version_is_read_from_the_banner(banner: str, expected: int | None) -> None:
    assert feature_version(banner) == expected


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert find_java() == java


def test_an_old_java_is_refused_with_the_command_that_installs_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(LagwatchError, match=r"is Java 11; .* apt-get install openjdk-17-jre-headless"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(LagwatchError, match=rf"JAVA_HOME is {tmp_path}, but there is no bin/java in it"):
        find_java()


def test_no_java_at_all_is_an_error_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(LagwatchError, match=r"no java on PATH; .* apt-get install openjdk-17-jre-headless"):
        find_java()


def _fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java
