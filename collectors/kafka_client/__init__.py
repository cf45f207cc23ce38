"""Connections, requests and tokens for Kafka: the only one of the collectors that imports kafka-python."""
