"""Sinks: the systems that polls are shipped to from the journal."""
