"""The last known state of a cluster, so that what cannot be queried now is shown as stale instead of missing."""
