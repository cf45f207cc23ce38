"""Every table lagwatch records: tags, fields, units, meanings, and how many rows to expect.

The InfluxDB measurements and their settings, the Parquet schema, `config check` and docs/metrics.md derive from this
package. Fields are only ever added. An unknown value is absent (null), never 0 and never NaN.
"""

from lagwatch.catalogue.agent_tables import AGENT, EVENT, REJECTED, SOURCE
from lagwatch.catalogue.clusters import BROKER, CLUSTER, TOPIC, TOPIC_PARTITION
from lagwatch.catalogue.consumers import COMMIT, CONSUMER_GROUP, CONSUMER_LAG, CONSUMER_TOPIC, GROUP_MEMBER
from lagwatch.catalogue.jmx import BROKER_REQUEST
from lagwatch.catalogue.model import SCHEMA_VERSION, Catalogue, Field, Kind, Table, Tag
from lagwatch.catalogue.user_beans import UserField, with_user_fields

BUILT_IN = Catalogue(
    (
        CONSUMER_LAG,
        CONSUMER_TOPIC,
        CONSUMER_GROUP,
        GROUP_MEMBER,
        COMMIT,
        TOPIC_PARTITION,
        TOPIC,
        BROKER,
        BROKER_REQUEST,
        CLUSTER,
        EVENT,
        SOURCE,
        AGENT,
        REJECTED,
    )
)
LOGS = frozenset(
    {COMMIT.name, EVENT.name, REJECTED.name}
)  # events in time, not state: the newest batch alone says little

__all__ = [
    "AGENT",
    "BROKER",
    "BROKER_REQUEST",
    "BUILT_IN",
    "CLUSTER",
    "COMMIT",
    "CONSUMER_GROUP",
    "CONSUMER_LAG",
    "CONSUMER_TOPIC",
    "EVENT",
    "GROUP_MEMBER",
    "LOGS",
    "REJECTED",
    "SCHEMA_VERSION",
    "SOURCE",
    "TOPIC",
    "TOPIC_PARTITION",
    "Catalogue",
    "Field",
    "Kind",
    "Table",
    "Tag",
    "UserField",
    "with_user_fields",
]
