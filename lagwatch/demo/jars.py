"""Downloads the jars that run a version of Kafka, once, into a cache folder.

Maven downloads them, or the Ivy that comes with pyspark, from the repository in the tool's defaults or the user's settings.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lagwatch.demo.java import find_java
from lagwatch.errors import LagwatchError

_SLF4J = "1.7.36"  # all Kafka versions so far are built against it; without a binding a node logs nothing
_FETCH_SECONDS = 900


def kafka_jars(version: str) -> Path:
    """The folder of jars for this version of Kafka; downloads them the first time.

    Safe to call from several processes at once: one downloads, the others wait. A killed download leaves no folder that
    looks complete.
    """
    home = cache_folder() / "kafka"
    jars = home / version
    if jars.is_dir():
        return jars
    home.mkdir(parents=True, exist_ok=True)
    with _only_one(home / f".{version}.lock"):
        if not jars.is_dir():
            for leftover in home.glob(f".{version}.fetch-*"):
                shutil.rmtree(leftover)
            _fetch(version, jars)
    return jars


def cache_folder() -> Path:
    """The folder for downloads: $LAGWATCH_CACHE, else `lagwatch` in the user's cache folder."""
    if own := os.environ.get("LAGWATCH_CACHE"):
        return Path(own)
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "lagwatch"


@contextmanager
def _only_one(lock_file: Path) -> Iterator[None]:
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it when the process ends in any way
        yield


def _fetch(version: str, jars: Path) -> None:
    tool, command_for = choose_tool(shutil.which("mvn"), _ivy_of_pyspark())
    _say(f"downloading Kafka {version} with {tool} into {jars} (once, takes 30 to 60 seconds)")
    with tempfile.TemporaryDirectory(prefix=f".{version}.fetch-", dir=jars.parent, ignore_cleanup_errors=True) as name:
        work, fetched = Path(name), Path(name) / "jars"
        (work / "pom.xml").write_text(maven_project(version))
        (work / "ivy.xml").write_text(ivy_module(version))
        _run(version, tool, command_for(work, fetched))
        for jar in fetched.glob("slf4j-reload4j-*.jar"):
            jar.unlink()  # Kafka 3.9 has its own binding; which of the two wins would depend on the order
        if not list(fetched.glob(f"kafka_2.13-{version}.jar")):
            raise LagwatchError(f"{tool} downloaded no kafka_2.13-{version}.jar; does Kafka {version} exist?")
        fetched.rename(jars)


def _run(version: str, tool: str, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise LagwatchError(
            f"{tool} did not download Kafka {version} within {_FETCH_SECONDS} s; try: {' '.join(command)}"
        ) from error
    if done.returncode != 0:
        output = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise LagwatchError(
            f"{tool} could not download Kafka {version} (exit code {done.returncode}). Output:\n{output}"
        )


def choose_tool(mvn: str | None, ivy: Path | None) -> tuple[str, Callable[[Path, Path], list[str]]]:
    """The preferred available tool: its name, and a function from work folder and target folder to its command."""
    if mvn is not None:
        return "Maven", partial(maven_command, mvn)
    if ivy is not None:
        return "pyspark's Ivy", partial(ivy_command, find_java(), ivy)
    raise LagwatchError(
        "neither Maven nor pyspark is installed, and one of them is needed to download Kafka. "
        "Run: apt-get install maven (or: pip install pyspark, which includes Ivy)"
    )


def _ivy_of_pyspark() -> Path | None:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return None
    return next(iter((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar")), None)


def maven_command(mvn: str, work: Path, fetched: Path) -> list[str]:
    """The Maven command that copies the runtime dependencies of the project."""
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
    return [mvn, "-q", "-B", "-f", str(work / "pom.xml"), *goal]


def ivy_command(java: Path, ivy: Path, work: Path, fetched: Path) -> list[str]:
    """The Ivy command; some jars have the packaging `bundle`."""
    names = f"{fetched}/[artifact]-[revision](-[classifier]).[ext]"
    return [str(java), "-jar", str(ivy), "-ivy", str(work / "ivy.xml"), "-types", "jar", "bundle", "-retrieve", names]


def _dependencies(version: str) -> list[tuple[str, str, str]]:
    return [
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        ("org.slf4j", "slf4j-simple", _SLF4J),
    ]


def maven_project(version: str) -> str:
    """A pom.xml that only depends on Kafka."""
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{rev}</version></dependency>"
        for group, name, rev in _dependencies(version)
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>lagwatch</groupId>"
        "<artifactId>kafka-on-loopback</artifactId><version>1</version>"
        f"<dependencies>{wanted}</dependencies></project>"
    )


def ivy_module(version: str) -> str:
    """An ivy.xml that only depends on Kafka; the `default` configuration of a Maven artifact is its runtime."""
    wanted = "".join(
        f'<dependency org="{group}" name="{name}" rev="{rev}" conf="default->default"/>'
        for group, name, rev in _dependencies(version)
    )
    return (
        '<ivy-module version="2.0"><info organisation="lagwatch" module="kafka-on-loopback"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main(versions: list[str]) -> int:
    """Download each version and print its folder. Returns the exit code."""
    if not versions:
        _say("usage: python -m lagwatch.demo.jars VERSION...   (example: 4.3.1)")
        return 2
    for version in versions:
        try:
            sys.stdout.write(f"{kafka_jars(version)}\n")
        except LagwatchError as error:
            _say(f"error: {error}")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
