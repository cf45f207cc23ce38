"""What all boards share: variables, annotations, links to each other, and how they are put together."""

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
    """A variable: a tag of a table, narrowed by the variables before it."""

    tag: str
    label: str
    table: Table
    narrowed_by: tuple[str, ...] = ()
    several: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels under it."""

    title: str
    cards: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard before it is JSON."""

    file: str
    title: str
    about: str
    choices: Sequence[Variable]
    rows: Sequence[Row]
    event_tags: tuple[str, ...] = ("cluster",)
    range_from: str = "now-24h"

    def build(self) -> models.Dashboard:
        """In Grafana's own types."""
        board = (
            builders.Dashboard(f"lagwatch: {self.title}")
            .uid(UIDS[self.file])
            .description(self.about)
            .tags([TAG, "kafka"])
            .timezone("browser")
            .time(self.range_from, "now")
            .refresh("1m")
            .tooltip(models.DashboardCursorSync.CROSSHAIR)
            .variables([_source_variable(), *(_variable(choice) for choice in self.choices)])
            .annotations(_annotations(self.event_tags))
            .link(_link_to_others())
        )
        number = 0
        for row in self.rows:
            board.with_row(builders.Row(row.title).id(number := number + 1))
            for card in row.cards:
                board.with_panel(card.panel.id(number := number + 1))
        return board.build()


def link(file: str, **variables: str) -> str:
    """The address of another board, with variables set and the view kept."""
    chosen = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return f"/d/{UIDS[file]}?${{datasource:queryparam}}{chosen}&${{__url_time_range}}"


def cell(column: str) -> str:
    """The value of another column of the same row, in an address."""
    return f"${{__data.fields.{column}:percentencode}}"


def _source_variable() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("InfluxDB").type("influxdb")


def _variable(choice: Variable) -> builders.QueryVariable:
    text = flux.tag_values(choice.table, choice.tag, flux.chosen(*choice.narrowed_by))
    variable = (
        builders.QueryVariable(choice.tag)
        .label(choice.label)
        .datasource(SOURCE)
        .query({"refId": choice.tag, "query": text})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NATURAL_ASC)
    )
    if choice.several:
        everything = models.VariableOption(selected=True, text="All", value="$__all")
        return variable.multi(True).include_all(True).all_value(".*").current(everything)
    return variable


def _annotations(tags: tuple[str, ...]) -> list[Builder[models.AnnotationQuery]]:
    """Status changes and rebalances; on a group's board only its own, `subject` being the group."""
    where = flux.chosen(*(tag for tag in tags if tag == "cluster"))
    where += ["r.subject =~ /^${group:regex}$/"] if "group" in tags else []
    kinds = (("Status changes", "status", palette.BAD), ("Rebalances", "rebalance", palette.PLAIN))
    made: list[Builder[models.AnnotationQuery]] = []
    for name, kind, colour in kinds:
        annotation = builders.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(colour)
        annotation.build().target = _AnnotationTarget(flux.events(EVENT, kind, where))
        made.append(annotation)
    return made


class _AnnotationTarget(models.AnnotationTarget):
    """The SDK's type has no place for a query of a data source."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def to_json(self) -> dict[str, object]:
        return {"refId": "Anno", "query": self._text}


def _link_to_others() -> builders.DashboardLink:
    return (
        builders.DashboardLink("lagwatch")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )
