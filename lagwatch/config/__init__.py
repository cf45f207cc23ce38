"""Loads the YAML configuration into a frozen `Settings`, or raises a `ConfigError` that lists every error.

Only this package uses pydantic and YAML; `lagwatch/assemble/` turns its values into plain ones.
"""

from lagwatch.config.jmx import ClusterJmx, Jmx, UserBean
from lagwatch.config.loading import UnreadableConfigError, load_settings, parse_settings
from lagwatch.config.security import Kerberos, OAuth, Sasl, SecuritySettings, Tls
from lagwatch.config.settings import (
    AgentSettings,
    Archive,
    ClusterSettings,
    Influxdb,
    Intervals,
    JournalSettings,
    Selection,
    Settings,
)
from lagwatch.config.verdicts import VerdictOverride, VerdictSettings

__all__ = [
    "AgentSettings",
    "Archive",
    "ClusterJmx",
    "ClusterSettings",
    "Influxdb",
    "Intervals",
    "Jmx",
    "JournalSettings",
    "Kerberos",
    "OAuth",
    "Sasl",
    "SecuritySettings",
    "Selection",
    "Settings",
    "Tls",
    "UnreadableConfigError",
    "UserBean",
    "VerdictOverride",
    "VerdictSettings",
    "load_settings",
    "parse_settings",
]
