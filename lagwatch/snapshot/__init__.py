"""The read model: the newest data of a cluster, and what commands read from it."""

from lagwatch.snapshot.snapshot import Snapshot
from lagwatch.snapshot.view import ClusterView, FailedTarget

__all__ = ["ClusterView", "FailedTarget", "Snapshot"]
