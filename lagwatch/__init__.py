"""lagwatch: consumer-lag and cluster-health monitoring for Apache Kafka. Start with ARCHITECTURE.md."""
