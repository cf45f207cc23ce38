"""Manages the class data sharing (CDS) archive of Kafka's jars, which makes JVMs start faster.

Loading classes from ninety jars is about a third of the CPU cost of starting a node. So the first cluster of a version
writes an archive beside the jars when it stops, and later JVMs start from it. It is optional: without a matching archive
a JVM reads the jars.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from lagwatch.demo.java import java_banner


class CdsArchive:
    """The archive for one folder of jars and one Java, whether it exists yet or not."""

    def __init__(self, jars: Path, java: Path) -> None:
        which_java = hashlib.sha256(f"{java.resolve()} {java_banner(java)}".encode()).hexdigest()[:8]
        self.file = jars.with_name(f"{jars.name}-java-{which_java}.jsa")
        self.exists = self.file.exists()

    def options_to_use(self) -> list[str]:
        """JVM options that use the archive; none while it does not exist."""
        return [f"-XX:SharedArchiveFile={self.file}", "-Xshare:auto", "-Xlog:cds=off"] if self.exists else []

    def options_to_make(self, draft: Path) -> list[str]:
        """JVM options that write an archive on an orderly exit."""
        return [f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds=off"]

    def adopt(self, draft: Path) -> None:
        """Install the archive that a JVM wrote, atomically: other processes may read it at the same time."""
        if not draft.exists():
            return
        copy = self.file.with_name(f".{self.file.name}-{os.getpid()}")
        try:
            shutil.copyfile(draft, copy)
            copy.replace(self.file)
        except OSError:  # such as a full disk: the next cluster tries again
            copy.unlink(missing_ok=True)
