"""Builds collectors, evaluators and sinks from the settings. Besides this only the runtime and the commands read them."""
