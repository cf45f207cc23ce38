"""The read model: the newest of everything about a cluster, and what commands, HTTP and alert rules read from it."""

from lagwatch.snapshot.snapshot import Snapshot
from lagwatch.snapshot.view import ClusterView, FailedTarget

__all__ = ["ClusterView", "FailedTarget", "Snapshot"]
