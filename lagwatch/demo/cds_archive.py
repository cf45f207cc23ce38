"""Kafka's classes in the form a JVM maps into memory: a folder of jars enters, JVM options leave.

Reading its classes out of ninety jars is about a third of the CPU a node's start costs. So the first cluster of a version
leaves an archive beside the jars when it stops, and every later JVM starts from that. Nothing depends on it: without
one, or with one that does not fit, a JVM reads the jars.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from lagwatch.demo.java import java_banner


class ClassArchive:
    """The archive for one folder of jars and one Java: either there to be used, or still to be made."""

    def __init__(self, jars: Path, java: Path) -> None:
        which_java = hashlib.sha256(f"{java.resolve()} {java_banner(java)}".encode()).hexdigest()[:8]
        self.file = jars.with_name(f"{jars.name}-java-{which_java}.jsa")
        self.exists = self.file.exists()

    def options_to_use(self) -> list[str]:
        """The options of a JVM that starts from the archive; none while there is none."""
        return [f"-XX:SharedArchiveFile={self.file}", "-Xshare:auto", "-Xlog:cds=off"] if self.exists else []

    def options_to_make(self, draft: Path) -> list[str]:
        """The options of a JVM that writes one when it ends in order."""
        return [f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds=off"]

    def adopt(self, draft: Path) -> None:
        """Keep what a JVM wrote, whole or not at all: other processes may read it at the same time."""
        if not draft.exists():
            return
        copy = self.file.with_name(f".{self.file.name}-{os.getpid()}")
        try:
            shutil.copyfile(draft, copy)
            copy.replace(self.file)
        except OSError:  # a full disk: the next cluster tries again
            copy.unlink(missing_ok=True)
