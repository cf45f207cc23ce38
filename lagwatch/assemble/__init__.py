"""Builds collectors, evaluators and sinks from the settings; with the runtime and the commands it alone reads them."""
