"""Fetching Kafka's jars, with a small script instead of Maven."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lagwatch.demo.jars import cache_folder, choose_tool, ivy_module, kafka_jars, maven_project
from lagwatch.errors import LagwatchError

# Does what `mvn dependency:copy-dependencies` would, slowly, and notes that it was called.
_FAKE_MAVEN = """#!/bin/sh
echo called >> "$FAKE_MAVEN_CALLS"
for word in "$@"; do case "$word" in -DoutputDirectory=*) out="${word#*=}" ;; esac; done
mkdir "$out" && touch "$out/kafka_2.13-4.3.1.jar" "$out/slf4j-reload4j-1.7.36.jar" "$out/slf4j-simple-1.7.36.jar"
sleep 0.3
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the fake Maven first on PATH and the cache in a fresh folder; the file has a line for each call of Maven."""
    _install_maven(tmp_path, _FAKE_MAVEN)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("LAGWATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_MAVEN_CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def _install_maven(folder: Path, script: str) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "mvn").write_text(script)
    (folder / "bin" / "mvn").chmod(0o755)


def test_jars_are_fetched_once_and_then_found(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = kafka_jars("4.3.1")
    second = kafka_jars("4.3.1")

    assert first == second == cache_folder() / "kafka" / "4.3.1"
    assert calls.read_text().splitlines() == ["called"]
    assert "downloading Kafka 4.3.1 with Maven" in capsys.readouterr().err


def test_only_our_own_logging_binding_is_kept(calls: Path) -> None:
    jars = kafka_jars("4.3.1")

    assert calls.exists()
    assert sorted(jar.name for jar in jars.iterdir()) == ["kafka_2.13-4.3.1.jar", "slf4j-simple-1.7.36.jar"]


def test_two_processes_at_once_fetch_once(calls: Path) -> None:
    command = [sys.executable, "-m", "lagwatch.demo.jars", "4.3.1"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]

    printed = {process.communicate(timeout=60)[0].decode().strip() for process in both}

    assert printed == {str(cache_folder() / "kafka" / "4.3.1")}
    assert calls.read_text().splitlines() == ["called"]


def test_a_killed_fetch_leaves_nothing_that_is_taken_for_jars(calls: Path) -> None:
    abandoned = cache_folder() / "kafka" / ".4.3.1.fetch-abandoned" / "jars"
    abandoned.mkdir(parents=True)

    jars = kafka_jars("4.3.1")

    assert calls.exists()
    assert (jars / "kafka_2.13-4.3.1.jar").exists()
    assert not abandoned.exists()


def test_what_maven_said_is_in_the_error(calls: Path) -> None:
    _install_maven(calls.parent, "#!/bin/sh\necho 'Could not find artifact'\nexit 1\n")

    with pytest.raises(
        LagwatchError, match=r"Maven could not download Kafka 4\.3\.1 \(exit code 1\)(.|\n)*find artifact"
    ):
        kafka_jars("4.3.1")

    assert [path.name for path in (cache_folder() / "kafka").iterdir()] == [".4.3.1.lock"]


def test_without_any_tool_the_error_names_the_commands_that_install_one() -> None:
    with pytest.raises(LagwatchError, match=r"apt-get install maven .*pip install pyspark"):
        choose_tool(None, None)


def test_maven_is_preferred_to_ivy() -> None:
    name, command_for = choose_tool("/usr/bin/mvn", Path("ivy.jar"))

    assert name == "Maven"
    assert command_for(Path("work"), Path("out"))[0] == "/usr/bin/mvn"


def test_both_tools_get_the_same_coordinates_and_no_repository() -> None:
    for text in (maven_project("4.1.2"), ivy_module("4.1.2")):
        assert "kafka_2.13" in text
        assert "kafka-tools" in text
        assert "4.1.2" in text
        assert "http" not in text


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LAGWATCH_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),  # ours wins
        ({"XDG_CACHE_HOME": "/b"}, "/b/lagwatch"),  # then the user's cache folder
        ({"HOME": "/h"}, "/h/.cache/lagwatch"),  # then where that is by default
    ],
)
def test_the_cache_is_where_the_user_wants_it(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAGWATCH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert str(cache_folder()) == expected
