"""Sinks: where polls go from the journal."""
