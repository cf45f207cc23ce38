"""Decoders from Kafka's bytes to columns: pure, so they import neither kafka-python nor a connection."""
