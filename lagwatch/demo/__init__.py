"""A real Kafka on loopback with producers and consumers, for `lagwatch demo` and the tests."""
