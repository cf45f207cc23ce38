"""Connections, requests and tokens for Kafka: the only package that imports kafka-python."""
