"""Builders of catalogue batches from decoded Kafka responses: pure, so they import no connection."""
