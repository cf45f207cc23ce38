"""Queries that the pipeline queues for brokers, and what it derives from the answers."""
