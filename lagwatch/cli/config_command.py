"""`lagwatch config check|show|example`: checks and prints configuration files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from lagwatch.cli import output
from lagwatch.cli.output import TableColumn
from lagwatch.config import ClusterSettings, Settings, UnreadableConfigError, load_settings
from lagwatch.config.capacity import Counts, Sizes, describe_fit, estimate, per_thousand
from lagwatch.config.reference import effective, render_example, render_yaml
from lagwatch.errors import ConfigError, LagwatchError
from lagwatch.text import duration_text, size_text

CountCluster = Callable[[ClusterSettings], Counts]
"""Queries a cluster for its groups, topics, partitions and brokers. Raises LagwatchError when it cannot."""

_File = Annotated[Path, typer.Argument(metavar="FILE", help="the configuration file, such as lagwatch.yml")]
_Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def _count_option(what: str) -> Any:
    return typer.Option(None, min=0, metavar="N", help=f"sizes for N {what} per cluster, without a query")


def build_config_app(count_cluster: CountCluster) -> typer.Typer:
    """The sub-commands. Only `check --sizes` calls `count_cluster`; all others read only the file."""
    app = typer.Typer(
        help="Check or show a configuration, or print an example.",
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )

    @app.command(epilog="Example: lagwatch config check lagwatch.yml --sizes")
    def check(
        file: _File,
        sizes: Annotated[
            bool, typer.Option("--sizes", help="query the clusters and estimate the bytes a day; exit 2 if one fails")
        ] = False,
        groups: int | None = _count_option("consumer groups"),
        group_partitions: int | None = _count_option("partitions with commits, summed over groups,"),
        topics: int | None = _count_option("topics"),
        partitions: int | None = _count_option("partitions"),
        brokers: int | None = _count_option("brokers"),
        as_json: _Json = False,
    ) -> None:
        """Report every mistake in a file. Connects to nothing unless --sizes is given.

        Exit 0 if the file is valid, 1 if it has mistakes or its history does not fit, 2 if it cannot be read.
        """
        given = {
            "groups": groups,
            "group_partitions": group_partitions,
            "topics": topics,
            "partitions": partitions,
            "brokers": brokers,
        }
        numbers = {key: number for key, number in given.items() if number is not None}
        if sizes and numbers:
            raise typer.BadParameter("give either --sizes or counts, not both", param_hint="--sizes")
        settings = _load(file, as_json=as_json)
        if sizes:
            estimate = _query(settings, count_cluster)
        else:
            estimate = _Estimate(settings, {c.name: Counts(**numbers) for c in settings.clusters} if numbers else {})
        _report(file, estimate, as_json=as_json)

    @app.command(epilog="Example: lagwatch config show lagwatch.yml --json")
    def show(file: _File, as_json: _Json = False) -> None:
        """Print the settings in effect, with defaults filled in and secrets masked."""
        settings = _load(file, as_json=False)
        if as_json:
            output.print_json(effective(settings))
        else:
            typer.echo(render_yaml(settings), nl=False)

    @app.command(epilog="Example: lagwatch config example > lagwatch.yml")
    def example() -> None:
        """Print a configuration with every key, its default and its meaning."""
        typer.echo(render_example(), nl=False)

    return app


@dataclass(frozen=True, slots=True)
class _Estimate:
    """How much a configuration will write, over the clusters that have counts; why the others have none."""

    settings: Settings
    counts: Mapping[str, Counts]
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> Sizes | None:
        return estimate(self.settings, self.counts) if self.counts else None


def _query(settings: Settings, count_cluster: CountCluster) -> _Estimate:
    counts: dict[str, Counts] = {}
    failures: dict[str, str] = {}
    for cluster in settings.clusters:
        try:
            counts[cluster.name] = count_cluster(cluster)
        except LagwatchError as error:
            failures[cluster.name] = str(error)
    return _Estimate(settings, counts, failures)


def _load(file: Path, *, as_json: bool) -> Settings:
    try:
        return load_settings(file)
    except ConfigError as error:
        if as_json:
            output.print_json({"file": str(file), "ok": False, "problems": list(error.problems)})
        for problem in error.problems:
            output.warn(problem)
        raise typer.Exit(output.FAILED if isinstance(error, UnreadableConfigError) else output.PROBLEM) from None


def _report(file: Path, estimate: _Estimate, *, as_json: bool) -> None:
    sizes = estimate.sizes
    if as_json:
        output.print_json(_document(file, estimate, sizes))
    else:
        output.print_lines(_lines(file, estimate, sizes))
    for name, why in estimate.failures.items():
        output.warn(f"cluster {name}: no sizes: {why}")
    if sizes and not sizes.fits:
        output.warn(f"{file}: journal: {describe_fit(estimate.settings, estimate.counts)}")
        raise typer.Exit(output.PROBLEM)
    if estimate.failures:
        output.warn("run `lagwatch check` to find out why, or give --group-partitions and the other counts")
        raise typer.Exit(output.FAILED)


def _document(file: Path, estimate: _Estimate, sizes: Sizes | None) -> dict[str, Any]:
    settings, size = estimate.settings, None
    if sizes is not None:
        size = {
            "series": sizes.series,
            "bytes_a_day": sizes.bytes_a_day,
            "kept_bytes": sizes.kept_bytes,
            "cap_bytes": sizes.cap_bytes,
            "fits": sizes.fits,
            "verdict": describe_fit(settings, estimate.counts),
            "tables": [asdict(table) for table in sizes.tables],
        }
    a_day, kept = per_thousand(settings, settings.clusters[0].name)
    return {
        "file": str(file),
        "ok": sizes is None or sizes.fits,
        "problems": [],
        "clusters": [cluster.name for cluster in settings.clusters],
        "counts": {name: asdict(count) for name, count in estimate.counts.items()},
        "failures": dict(estimate.failures),
        "per_1000_group_partitions": {"bytes_a_day": a_day, "kept_bytes": kept},
        "sizes": size,
    }


def _lines(file: Path, estimate: _Estimate, sizes: Sizes | None) -> list[str]:
    settings = estimate.settings
    history = duration_text(settings.journal.history.total_seconds())
    fits = sizes is None or sizes.fits
    lines = [
        f"{file}: {'ok' if fits else 'valid, but journal.history does not fit journal.max_size'}",
        f"agent {settings.agent.name}, journal {settings.journal.path}, history {history}",
        *(_cluster_line(cluster) for cluster in settings.clusters),
    ]
    if sizes is not None:
        lines += _size_table(sizes, history)
        return [*lines, f"journal: {describe_fit(settings, estimate.counts)}"] if sizes.fits else lines
    for cluster in settings.clusters:
        a_day, kept = per_thousand(settings, cluster.name)
        cost = f"about {size_text(a_day)} a day, {size_text(kept)} kept for {history}"
        lines.append(f"cluster {cluster.name}: each 1,000 group-partitions write {cost}")
    if not estimate.failures:
        lines.append("sizes: not estimated; add --sizes to query the clusters, or give --group-partitions N")
    return lines


def _cluster_line(cluster: ClusterSettings) -> str:
    security = cluster.security
    how = security.protocol + (f" {security.sasl.mechanism}" if security.sasl else "")
    every = duration_text(cluster.intervals.kafka.total_seconds())
    return f"cluster {cluster.name}: {', '.join(cluster.bootstrap)}, {how}, polled every {every}"


def _size_table(sizes: Sizes, history: str) -> list[str]:
    columns = [
        TableColumn("CLUSTER"),
        TableColumn("TABLE"),
        *(TableColumn(name, right=True) for name in ("SERIES", "ROWS/DAY", "BYTES/DAY", f"KEPT {history}")),
    ]
    rows = [
        (table.cluster or "-", table.table, table.series, table.rows_a_day, table.bytes_a_day, table.kept_bytes)
        for table in sizes.tables
    ]
    total_rows = sum(table.rows_a_day for table in sizes.tables)
    rows.append(("total", "-", sizes.series, total_rows, sizes.bytes_a_day, sizes.kept_bytes))
    return output.table_lines(
        columns,
        [
            (cluster, table, f"{series:,}", f"{per_day:,}", size_text(a_day), size_text(kept))
            for cluster, table, series, per_day, a_day, kept in rows
        ],
    )
