"""Builds the panel types of the dashboards, with common units, colours, gaps and texts for missing data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import heatmap, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    ThresholdsMode,
    ValueMapping,
)

from grafana.generator import palette
from grafana.generator.query import SOURCE, FluxQueryBuilder

NO_DATA = "no data in this time range. Does the agent run and reach the cluster? See the Agent dashboard"
NO_JMX = (
    "no data: these values come from JMX. Is jmx configured for this cluster, and is it up? See the Agent dashboard"
)

NEVER_RED = "never"

_BRIDGED_MS = 1_500_000
"""Lines connect across gaps up to the longest interval between polls of one value; longer gaps stay open."""


@dataclass(frozen=True, slots=True)
class Panel:
    """An SDK panel builder with its documentation: what the panel means and what to do when it is red."""

    builder: Any
    title: str
    means: str
    red: str = NEVER_RED


@dataclass(frozen=True, slots=True)
class Line:
    """One query of a panel, with the name and style of its series."""

    flux: str
    name: str = ""
    colour: str = ""
    dashed: bool = False
    fill_to: str = ""


def stat_panel(
    title: str,
    flux: str,
    *,
    means: str,
    red: str = NEVER_RED,
    width: int = 3,
    unit: str = "short",
    steps: palette.Steps = palette.NO_COLOUR,
    name: str = "",
    mappings: Sequence[ValueMapping] | None = None,
    colours: Mapping[str, str] | None = None,
    text: bool = False,
    no_data: str = NO_DATA,
) -> Panel:
    """A number, or one per series, on a coloured background. `colours` maps columns to their colour above zero."""
    panel = (
        stat.Panel()
        .unit(unit)
        .mappings(list(palette.stale_mapping() if mappings is None else mappings))
        .thresholds(_absolute(steps))
        .color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .text_mode(common.BigValueTextMode.VALUE_AND_NAME if name or colours else common.BigValueTextMode.VALUE)
        .reduce_options(_last(text=text))
        .height(4)
    )
    if name:
        panel.display_name(name)
    for column, colour in (colours or {}).items():
        panel.override_by_name(column, [_steps(((None, palette.NONE_OF_THESE), (1, colour)))])
    return _panel(panel, title, [Line(flux)], means, red, width, no_data)


def lines_panel(
    title: str,
    lines: Sequence[Line],
    *,
    means: str,
    red: str = NEVER_RED,
    width: int = 12,
    height: int = 8,
    unit: str = "short",
    minimum: float | None = 0,
    maximum: float | None = None,
    stacked: bool = False,
    steps: palette.Steps | None = None,
    no_data: str = NO_DATA,
    narrowest: str = "10s",
) -> Panel:
    """Lines over time. `steps` draws thresholds as dashed lines."""
    panel = (
        timeseries.Panel()
        .unit(unit)
        .line_width(1)
        .fill_opacity(60 if stacked else 8)
        .show_points(common.VisibilityMode.AUTO)
        .span_nulls(_BRIDGED_MS)
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs([])
        )
        .height(height)
    )
    if minimum is not None:
        panel.min(minimum)
    if maximum is not None:
        panel.max(maximum)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if steps is not None:
        panel.thresholds(_absolute(steps)).thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        )
    made = _panel(panel, title, lines, means, red, width, no_data)
    panel.interval(narrowest)
    return made


def timeline_panel(
    title: str, flux: str, *, name: str, means: str, red: str, width: int = 24, height: int = 6
) -> Panel:
    """Statuses over time, one bar per series."""
    panel = (
        statetimeline.Panel()
        .mappings(palette.status_mappings())
        .color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .thresholds(_absolute(((None, palette.UNKNOWN),)))
        .show_value(common.VisibilityMode.AUTO)
        .merge_values(True)
        .row_height(0.85)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs([])
        )
        .height(height)
    )
    panel.override_by_query("A", [DynamicConfigValue(id_val="custom.spanNulls", value=_BRIDGED_MS)])
    return _panel(panel, title, [Line(flux, name)], means, red, width, NO_DATA)


def heat_panel(title: str, flux: str, *, name: str, means: str, red: str, unit: str, width: int = 24) -> Panel:
    """A heatmap with one row per series, darker for larger values."""
    panel = (
        heatmap.Panel()
        .calculate(False)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_models.HeatmapColorMode.SCHEME)
            .scheme("Purples")
            .scale(heatmap_models.HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(64)
            .reverse(False)
            .fill(palette.REWOUND)
        )
        .cell_gap(1)
        .cell_values(heatmap.CellValues().unit(unit))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(common.HeatmapCellLayout.AUTO))
        .show_value(common.VisibilityMode.NEVER)
        .y_axis(heatmap.YAxisConfig().axis_placement(common.AxisPlacement.LEFT))
        .show_legend()
        .mode(common.TooltipDisplayMode.SINGLE)
        .max_data_points(200)
        .height(9)
    )
    return _panel(panel, title, [Line(flux, name)], means, red, width, NO_DATA)


def table_panel(
    title: str,
    flux: str,
    columns: Mapping[str, str],
    *,
    means: str,
    red: str = NEVER_RED,
    width: int = 24,
    height: int = 9,
    overrides: Mapping[str, Sequence[DynamicConfigValue]] | None = None,
    no_data: str = NO_DATA,
) -> Panel:
    """A table. `columns` maps columns to headings, in order; `overrides` maps headings to field overrides."""
    panel = (
        table.Panel()
        .show_header(True)
        .cell_height(common.TableCellHeight.SM)
        .color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .thresholds(_absolute(palette.NO_COLOUR))
        .with_transformation(
            DataTransformerConfig(
                id_val="organize",
                options={
                    "indexByName": {name: position for position, name in enumerate(columns)},
                    "renameByName": dict(columns),
                },
            )
        )
        .height(height)
    )
    for heading, properties in (overrides or {}).items():
        panel.override_by_name(heading, list(properties))
    return _panel(panel, title, [Line(flux)], means, red, width, no_data)


def unit_override(unit: str) -> list[DynamicConfigValue]:
    """The unit of a column; null is a dash."""
    return [
        DynamicConfigValue(id_val="unit", value=unit),
        DynamicConfigValue(id_val="mappings", value=palette.stale_mapping()),
    ]


def coloured_override(steps: palette.Steps, unit: str = "short") -> list[DynamicConfigValue]:
    """A column with a coloured background."""
    return [*unit_override(unit), _steps(steps), _background()]


def status_override() -> list[DynamicConfigValue]:
    """A column of statuses in their colours."""
    return [
        DynamicConfigValue(id_val="mappings", value=palette.status_mappings()),
        DynamicConfigValue(id_val="custom.width", value=150),
        _background(),
    ]


def link_override(title: str, url: str) -> list[DynamicConfigValue]:
    """A column with links to another dashboard."""
    return [DynamicConfigValue(id_val="links", value=[{"title": title, "url": url}])]


def width_override(pixels: int) -> list[DynamicConfigValue]:
    """The width of a column."""
    return [DynamicConfigValue(id_val="custom.width", value=pixels)]


def _panel(panel: Any, title: str, lines: Sequence[Line], means: str, red: str, width: int, no_data: str) -> Panel:
    description = means if red == NEVER_RED else f"{means} When red: {red}"
    panel.title(title).description(description).datasource(SOURCE).span(width).interval("10s")
    panel.no_value(no_data)
    for ref_id, line in zip("ABCDEFGHIJ", lines, strict=False):
        panel.with_target(FluxQueryBuilder(ref_id, line.flux))
        overrides = _line_overrides(line)
        if overrides:
            panel.override_by_query(ref_id, overrides)
    return Panel(panel, title, means, red)


def _line_overrides(line: Line) -> list[DynamicConfigValue]:
    overrides = []
    if line.name:
        overrides.append(DynamicConfigValue(id_val="displayName", value=line.name))
    if line.colour:
        overrides.append(DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": line.colour}))
    if line.dashed:
        overrides.append(DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [6, 6]}))
    if line.fill_to:
        overrides.append(DynamicConfigValue(id_val="custom.fillBelowTo", value=line.fill_to))
    return overrides


def _last(*, text: bool) -> common_builders.ReduceDataOptions:
    options = common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    return options.fields("/.*/") if text else options.fields("")


def _absolute(steps: palette.Steps) -> ThresholdsConfig:
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(palette.thresholds(steps))


def _steps(steps: palette.Steps) -> DynamicConfigValue:
    value = {"mode": "absolute", "steps": palette.thresholds(steps)}
    return DynamicConfigValue(id_val="thresholds", value=value)


def _background() -> DynamicConfigValue:
    return DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-background", "mode": "basic"})
