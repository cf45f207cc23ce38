"""The configuration: one YAML file enters, one frozen `Settings` leaves, or a `ConfigError` with every mistake.

Only this package knows pydantic and YAML; the agent and the command line map its values to what they start.
"""

from lagwatch.config.jmx import ClusterJmx, Jmx, OwnBean
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
    "OwnBean",
    "Sasl",
    "SecuritySettings",
    "Selection",
    "Settings",
    "Tls",
    "UnreadableConfigError",
    "VerdictOverride",
    "VerdictSettings",
    "load_settings",
    "parse_settings",
]
