"""What was last seen of a cluster, so that what cannot be asked now is shown as stale instead of being absent."""
