"""Assembles dashboards, with the variables, annotations and links that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models

from grafana.generator import flux, palette
from grafana.generator.panels import Panel
from grafana.generator.query import SOURCE
from lagwatch.catalogue import EVENT, Table
from lagwatch.event_kinds import EventKind

TAG = "lagwatch"
UIDS = {
    "overview": "lagwatch-overview",
    "consumer-group": "lagwatch-group",
    "topic": "lagwatch-topic",
    "brokers": "lagwatch-brokers",
    "agent": "lagwatch-agent",
}


@dataclass(frozen=True, slots=True)
class Variable:
    """A dashboard variable: the values of a tag of a table, filtered by the variables in `narrowed_by`."""

    tag: str
    label: str
    table: Table
    narrowed_by: tuple[str, ...] = ()
    several: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a dashboard: a heading and its panels."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Board:
    """The definition of a dashboard."""

    file: str
    title: str
    about: str
    variables: Sequence[Variable]
    rows: Sequence[Row]
    event_tags: tuple[str, ...] = ("cluster",)
    range_from: str = "now-24h"

    def build(self) -> models.Dashboard:
        """The dashboard in the types of Grafana's SDK."""
        board = (
            builders.Dashboard(f"lagwatch: {self.title}")
            .uid(UIDS[self.file])
            .description(self.about)
            .tags([TAG, "kafka"])
            .timezone("browser")
            .time(self.range_from, "now")
            .refresh("1m")
            .tooltip(models.DashboardCursorSync.CROSSHAIR)
            .variables([_source_variable(), *(_variable(variable) for variable in self.variables)])
            .annotations(_annotations(self.event_tags))
            .link(_links_to_dashboards())
        )
        number = 0
        for row in self.rows:
            board.with_row(builders.Row(row.title).id(number := number + 1))
            for panel in row.panels:
                board.with_panel(panel.builder.id(number := number + 1))
        return board.build()


def link(file: str, **variables: str) -> str:
    """The URL of another dashboard with these variables; keeps the time range."""
    chosen = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return f"/d/{UIDS[file]}?${{datasource:queryparam}}{chosen}&${{__url_time_range}}"


def cell(column: str) -> str:
    """The value of another column of the same table row, for a URL."""
    return f"${{__data.fields.{column}:percentencode}}"


def _source_variable() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("InfluxDB").type("influxdb")


def _variable(variable: Variable) -> builders.QueryVariable:
    text = flux.tag_values(variable.table, variable.tag, flux.chosen(*variable.narrowed_by))
    built = (
        builders.QueryVariable(variable.tag)
        .label(variable.label)
        .datasource(SOURCE)
        .query({"refId": variable.tag, "query": text})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NATURAL_ASC)
    )
    if variable.several:
        everything = models.VariableOption(selected=True, text="All", value="$__all")
        return built.multi(True).include_all(True).all_value(".*").current(everything)
    return built


def _annotations(tags: tuple[str, ...]) -> list[Builder[models.AnnotationQuery]]:
    """Status changes and rebalances; the dashboard of a group shows only those with the group as `subject`."""
    where = flux.chosen(*(tag for tag in tags if tag == "cluster"))
    where += ["r.subject =~ /^${group:regex}$/"] if "group" in tags else []
    kinds = (
        ("Status changes", EventKind.STATUS, palette.BAD),
        ("Rebalances", EventKind.REBALANCE, palette.PLAIN),
    )
    made: list[Builder[models.AnnotationQuery]] = []
    for name, kind, colour in kinds:
        annotation = builders.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(colour)
        annotation.build().target = _AnnotationTarget(flux.events(EVENT, kind, where))
        made.append(annotation)
    return made


class _AnnotationTarget(models.AnnotationTarget):
    """An annotation target with a Flux query, which the SDK's type cannot hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def to_json(self) -> dict[str, object]:
        return {"refId": "Anno", "query": self._text}


def _links_to_dashboards() -> builders.DashboardLink:
    return (
        builders.DashboardLink("lagwatch")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )
