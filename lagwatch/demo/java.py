"""Finds the Java that runs Kafka and checks its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from lagwatch.errors import LagwatchError

OLDEST_JAVA = 17
_INSTALL = "Run: apt-get install openjdk-17-jre-headless (or set JAVA_HOME to a Java 17 or newer)"


def find_java() -> Path:
    """The java of JAVA_HOME, else of PATH. Raises LagwatchError unless it is Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        problem = f"JAVA_HOME is {home}, but there is no bin/java in it" if home else "no java on PATH"
        raise LagwatchError(f"{problem}; Kafka on loopback needs Java {OLDEST_JAVA} or newer. {_INSTALL}")
    return _checked(Path(found))


@cache
def java_banner(java: Path) -> str:
    """The output of `java -version`."""
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr


def _checked(java: Path) -> Path:
    banner = java_banner(java)
    version = feature_version(banner)
    if version is None:
        raise LagwatchError(f'{java} -version printed "{banner.strip()[:200]}", which has no version. {_INSTALL}')
    if version < OLDEST_JAVA:
        raise LagwatchError(
            f"{java} is Java {version}; Kafka on loopback needs Java {OLDEST_JAVA} or newer. {_INSTALL}"
        )
    return java


def feature_version(banner: str) -> int | None:
    """The feature version in the output of `java -version`: 17 for "17.0.15", 8 for "1.8.0_392"."""
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(found[1]) if found else None
