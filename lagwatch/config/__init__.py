"""Loads the YAML configuration into a frozen `Settings`, or raises a `ConfigError` that lists every error.

Only this package uses pydantic and YAML; `lagwatch/assemble/` turns its values into plain ones.
"""

from lagwatch.config.loading import UnreadableConfigError, load_settings, parse_settings
from lagwatch.config.settings import ClusterSettings, Settings

__all__ = ["ClusterSettings", "Settings", "UnreadableConfigError", "load_settings", "parse_settings"]
