"""The configuration: one YAML file enters, one frozen `Settings` leaves, or a `ConfigError` with every mistake.

Only this package knows pydantic and YAML; the agent and the command line map its values to what they start.
"""

from lagwatch.config.jmx import ClusterJmx, Jmx, OwnBean
from lagwatch.config.loading import UnreadableConfigError, load_settings, parse_settings
from lagwatch.config.security import Kerberos, OAuth, Sasl, Security, Tls
from lagwatch.config.settings import Agent, Archive, Cluster, Influxdb, Intervals, Journal, Selection, Settings
from lagwatch.config.verdicts import VerdictOverride, Verdicts

__all__ = [
    "Agent",
    "Archive",
    "Cluster",
    "ClusterJmx",
    "Influxdb",
    "Intervals",
    "Jmx",
    "Journal",
    "Kerberos",
    "OAuth",
    "OwnBean",
    "Sasl",
    "Security",
    "Selection",
    "Settings",
    "Tls",
    "UnreadableConfigError",
    "VerdictOverride",
    "Verdicts",
    "load_settings",
    "parse_settings",
]
