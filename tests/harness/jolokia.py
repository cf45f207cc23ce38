"""Downloads Jolokia's agent jar once with Maven or Ivy, beside the jars of Kafka."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lagwatch.demo.jars import _ivy_of_pyspark, cache_folder, choose_tool

VERSION = "2.1.2"
_NAME = "jolokia-agent-jvm"
_POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>lagwatch</groupId><artifactId>jolokia-for-tests</artifactId>
<version>1</version><dependencies><dependency><groupId>org.jolokia</groupId><artifactId>{_NAME}</artifactId>
<version>{VERSION}</version><classifier>javaagent</classifier></dependency></dependencies></project>"""
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="lagwatch" module="jolokia-for-tests"/><configurations><conf name="default"/></configurations>
<dependencies><dependency org="org.jolokia" name="{_NAME}" rev="{VERSION}" transitive="false" conf="default-&gt;default">
<artifact name="{_NAME}" type="jar" ext="jar" m:classifier="javaagent"/></dependency></dependencies></ivy-module>"""


def jolokia_jar() -> Path:
    """The path of the jar; downloads it the first time."""
    jar = cache_folder() / "jolokia" / f"{_NAME}-{VERSION}-javaagent.jar"
    if jar.exists():
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    _, command_for = choose_tool(shutil.which("mvn"), _ivy_of_pyspark())
    with tempfile.TemporaryDirectory(dir=jar.parent) as name:
        work, fetched = Path(name), Path(name) / "jars"
        (work / "pom.xml").write_text(_POM)
        (work / "ivy.xml").write_text(_IVY)
        done = subprocess.run(command_for(work, fetched), capture_output=True, text=True, check=False, timeout=600)
        found = list(fetched.glob(f"{_NAME}-{VERSION}-javaagent.jar"))
        if not found:
            raise RuntimeError(f"Jolokia could not be fetched: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        found[0].rename(jar)
    return jar


if __name__ == "__main__":
    sys.stdout.write(f"{jolokia_jar()}\n")
