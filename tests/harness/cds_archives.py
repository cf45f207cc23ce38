"""Writes the CDS archives of Kafka's jars before the tests: `python -m tests.harness.cds_archives 4.3.1 ...`.

A cluster writes the archive of its version when it stops. Workers that start together on a fresh machine would all start
without one, which costs a third more CPU for each node.
"""

from __future__ import annotations

import sys

from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.kafka_jvm import KafkaJvm
from lagwatch.errors import LagwatchError


def write_cds_archive(version: str) -> None:
    """Start and stop a cluster of this version, unless its archive exists. Raises LagwatchError."""
    if KafkaJvm(version, heap="256m").cds_archive.exists:
        return
    sys.stderr.write(f"CDS archive: starting Kafka {version} once to write it\n")
    with KafkaCluster(3, version=version):
        pass


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:]:
            write_cds_archive(wanted)
    except LagwatchError as error:
        sys.exit(f"error: {error}")
