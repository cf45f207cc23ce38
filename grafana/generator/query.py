"""A Flux query for Grafana's SDK, which has none for InfluxDB."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.dashboard import DataSourceRef

SOURCE = DataSourceRef(type_val="influxdb", uid="${datasource}")


class FluxQuery(Dataquery):
    """The text of a query and its refId within the panel."""

    def __init__(self, ref_id: str, text: str) -> None:
        self.ref_id = ref_id
        self.text = text

    def to_json(self) -> dict[str, object]:
        """The JSON of the query in a dashboard."""
        return {"refId": self.ref_id, "datasource": SOURCE, "query": self.text}


class FluxQueryBuilder(Builder[Dataquery]):
    """A builder for FluxQuery, as the SDK requires."""

    def __init__(self, ref_id: str, text: str) -> None:
        self._query = FluxQuery(ref_id, text)

    def build(self) -> FluxQuery:
        """The query."""
        return self._query
