"""A Flux query as the SDK wants one: it has none for InfluxDB."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.dashboard import DataSourceRef

SOURCE = DataSourceRef(type_val="influxdb", uid="${datasource}")


class FluxQuery(Dataquery):
    """A query's text and the letter it is known by in its panel."""

    def __init__(self, ref_id: str, text: str) -> None:
        self.ref_id = ref_id
        self.text = text

    def to_json(self) -> dict[str, object]:
        """As it stands in a dashboard."""
        return {"refId": self.ref_id, "datasource": SOURCE, "query": self.text}


class FluxQueryBuilder(Builder[Dataquery]):
    """The builder of one."""

    def __init__(self, ref_id: str, text: str) -> None:
        self._query = FluxQuery(ref_id, text)

    def build(self) -> FluxQuery:
        """The query."""
        return self._query
