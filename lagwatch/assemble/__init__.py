"""Builds collectors, evaluators and sinks from the settings.

Only this package, the runtime and the commands read settings.
"""
