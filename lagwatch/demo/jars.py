"""Kafka's jars: a version enters, a folder with everything that `java -cp` needs leaves.

They are fetched once, through Maven or through the Ivy that pyspark carries, and kept outside the checkout. Which
repository they come from is the tools' own business: their defaults or the user's settings.
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

_SLF4J = "1.7.36"  # the one all Kafka versions so far are built against; without a binding a node would log nothing
_FETCH_SECONDS = 900


def kafka_jars(version: str) -> Path:
    """The folder of jars that run Kafka of this version; fetches them the first time.

    Safe to call from several processes at once: one fetches, the others wait for it. A fetch that was killed leaves
    nothing that is taken for jars.
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
    """Where lagwatch keeps what it fetched: $LAGWATCH_CACHE, else `lagwatch` in the user's cache folder."""
    if own := os.environ.get("LAGWATCH_CACHE"):
        return Path(own)
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "lagwatch"


@contextmanager
def _only_one(lock_file: Path) -> Iterator[None]:
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it when the process ends, however it ends
        yield


def _fetch(version: str, jars: Path) -> None:
    tool, command_for = choose_tool(shutil.which("mvn"), _ivy_of_pyspark())
    _say(f"fetching Kafka {version} with {tool} into {jars} (once, takes half a minute to a minute)")
    with tempfile.TemporaryDirectory(prefix=f".{version}.fetch-", dir=jars.parent, ignore_cleanup_errors=True) as name:
        work, fetched = Path(name), Path(name) / "jars"
        (work / "pom.xml").write_text(maven_project(version))
        (work / "ivy.xml").write_text(ivy_module(version))
        _run(version, tool, command_for(work, fetched))
        for jar in fetched.glob("slf4j-reload4j-*.jar"):
            jar.unlink()  # Kafka 3.9 brings a binding of its own, which would win over ours or not, as the order falls
        if not list(fetched.glob(f"kafka_2.13-{version}.jar")):
            raise LagwatchError(f"{tool} fetched no kafka_2.13-{version}.jar; is there a Kafka {version}?")
        fetched.rename(jars)


def _run(version: str, tool: str, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise LagwatchError(
            f"{tool} did not fetch Kafka {version} within {_FETCH_SECONDS} s; try: {' '.join(command)}"
        ) from error
    if done.returncode != 0:
        said = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise LagwatchError(f"{tool} could not fetch Kafka {version} (code {done.returncode}). It said:\n{said}")


def choose_tool(mvn: str | None, ivy: Path | None) -> tuple[str, Callable[[Path, Path], list[str]]]:
    """The better of the tools that are there: its name, and what gives its command for a folder to work in and to fill."""
    if mvn is not None:
        return "Maven", partial(maven_command, mvn)
    if ivy is not None:
        return "pyspark's Ivy", partial(ivy_command, find_java(), ivy)
    raise LagwatchError(
        "neither Maven nor pyspark is installed, and one of them is needed to fetch Kafka. "
        "Run: apt-get install maven (or: pip install 'lagwatch[reports]', whose pyspark carries Ivy)"
    )


def _ivy_of_pyspark() -> Path | None:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return None
    return next(iter((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar")), None)


def maven_command(mvn: str, work: Path, fetched: Path) -> list[str]:
    """What Maven is asked: copy the project's dependencies, as far as they are needed to run."""
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
    return [mvn, "-q", "-B", "-f", str(work / "pom.xml"), *goal]


def ivy_command(java: Path, ivy: Path, work: Path, fetched: Path) -> list[str]:
    """What Ivy is asked; `bundle` is how some jars are packed."""
    names = f"{fetched}/[artifact]-[revision](-[classifier]).[ext]"
    return [str(java), "-jar", str(ivy), "-ivy", str(work / "ivy.xml"), "-types", "jar", "bundle", "-retrieve", names]


def _dependencies(version: str) -> list[tuple[str, str, str]]:
    return [
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        ("org.slf4j", "slf4j-simple", _SLF4J),
    ]


def maven_project(version: str) -> str:
    """A pom.xml that does nothing but depend on Kafka."""
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
    """An ivy.xml that does nothing but depend on Kafka; `default` of a Maven artifact is what it needs to run."""
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
    """Fetch each version and print where it is. Returns the exit code."""
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
