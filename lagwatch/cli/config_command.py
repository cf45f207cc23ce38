"""`lagwatch config check|show|example`: the configuration file, before an agent is started with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lagwatch.config import ClusterSettings, Settings, UnreadableConfigError, load_settings
from lagwatch.config.capacity import Counts, Sizes, expect, judge, per_thousand
from lagwatch.config.reference import render_example, render_json, render_yaml
from lagwatch.errors import ConfigError, LagwatchError
from lagwatch.text import duration_text, size_text

CountCluster = Callable[[ClusterSettings], Counts]
"""Asks a cluster how much there is to watch. Raises LagwatchError when it cannot be asked."""

_File = Annotated[Path, typer.Argument(metavar="FILE", help="the configuration, such as lagwatch.yml")]
_Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def _count_option(what: str) -> Any:
    return typer.Option(None, min=0, metavar="N", help=f"{what} of each cluster, instead of asking it")


def build_config_app(count_cluster: CountCluster | None = None) -> typer.Typer:
    """The sub-commands. `count_cluster` lets `check` ask the clusters for their sizes."""
    app = typer.Typer(
        help="Check, show or begin a configuration file.",
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )

    @app.command(epilog="Example: lagwatch config check lagwatch.yml --groups 200 --group-partitions 20000")
    def check(
        file: _File,
        groups: int | None = _count_option("consumer groups"),
        group_partitions: int | None = _count_option("partitions with commits, summed over groups,"),
        topics: int | None = _count_option("topics"),
        partitions: int | None = _count_option("partitions"),
        brokers: int | None = _count_option("brokers"),
        offline: Annotated[bool, typer.Option("--offline", help="do not ask the clusters")] = False,
        as_json: _Json = False,
    ) -> None:
        """Report every mistake of a file, and the bytes a day it will write. Exit 1 if it cannot be used."""
        settings = _load(file, as_json=as_json)
        given = {
            "groups": groups,
            "group_partitions": group_partitions,
            "topics": topics,
            "partitions": partitions,
            "brokers": brokers,
        }
        numbers = {key: number for key, number in given.items() if number is not None}
        counts: dict[str, Counts] = {}
        failures: dict[str, str] = {}
        if numbers:
            counts = {cluster.name: Counts(**numbers) for cluster in settings.clusters}
        elif count_cluster is not None and not offline:
            counts, failures = _ask(settings, count_cluster)
        sizes = expect(settings, counts) if counts else None
        if as_json:
            typer.echo(json.dumps(_check_json(file, settings, counts, failures, sizes), indent=2))
        else:
            _print_check(file, settings, counts, sizes)
        for name, why in failures.items():
            typer.echo(f"cluster {name}: could not be asked for its size: {why}", err=True)
        if sizes and not sizes.fits:
            typer.echo(f"{file}: journal: {judge(settings, counts)}", err=True)
            raise typer.Exit(1)
        if failures:
            typer.echo("give --group-partitions and the other counts, or --offline, to check without asking", err=True)
            raise typer.Exit(2)

    @app.command(epilog="Example: lagwatch config show lagwatch.yml --json")
    def show(file: _File, as_json: _Json = False) -> None:
        """Print the settings in effect, defaults filled in and secrets masked."""
        settings = _load(file, as_json=False)
        typer.echo(render_json(settings) if as_json else render_yaml(settings), nl=as_json)

    @app.command(epilog="Example: lagwatch config example > lagwatch.yml")
    def example() -> None:
        """Print a configuration with every key, its default and its meaning."""
        typer.echo(render_example(), nl=False)

    return app


def _load(file: Path, *, as_json: bool) -> Settings:
    try:
        return load_settings(file)
    except ConfigError as error:
        if as_json:
            typer.echo(json.dumps({"file": str(file), "ok": False, "problems": list(error.problems)}, indent=2))
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise typer.Exit(2 if isinstance(error, UnreadableConfigError) else 1) from None


def _ask(settings: Settings, count_cluster: CountCluster) -> tuple[dict[str, Counts], dict[str, str]]:
    counts: dict[str, Counts] = {}
    failures: dict[str, str] = {}
    for cluster in settings.clusters:
        try:
            counts[cluster.name] = count_cluster(cluster)
        except LagwatchError as error:
            failures[cluster.name] = str(error)
    return counts, failures


def _check_json(
    file: Path, settings: Settings, counts: Mapping[str, Counts], failures: Mapping[str, str], sizes: Sizes | None
) -> dict[str, Any]:
    size = None
    if sizes is not None:
        size = {
            "series": sizes.series,
            "bytes_a_day": sizes.bytes_a_day,
            "kept_bytes": sizes.kept_bytes,
            "cap_bytes": sizes.cap_bytes,
            "fits": sizes.fits,
            "verdict": judge(settings, counts),
            "tables": [asdict(table) for table in sizes.tables],
        }
    a_day, kept = per_thousand(settings, settings.clusters[0].name)
    return {
        "file": str(file),
        "ok": sizes is None or sizes.fits,
        "problems": [],
        "clusters": [cluster.name for cluster in settings.clusters],
        "counts": {name: asdict(count) for name, count in counts.items()},
        "not_asked": dict(failures),
        "per_1000_group_partitions": {"bytes_a_day": a_day, "kept_bytes": kept},
        "sizes": size,
    }


def _print_check(file: Path, settings: Settings, counts: Mapping[str, Counts], sizes: Sizes | None) -> None:
    history = duration_text(settings.journal.history.total_seconds())
    typer.echo(f"{file}: {'ok' if sizes is None or sizes.fits else 'no mistakes, but its history does not fit'}")
    typer.echo(f"agent {settings.agent.name}, journal {settings.journal.path}, history {history}")
    for cluster in settings.clusters:
        security = cluster.security
        how = security.protocol + (f" {security.sasl.mechanism}" if security.sasl else "")
        every = duration_text(cluster.intervals.kafka.total_seconds())
        typer.echo(f"cluster {cluster.name}: {', '.join(cluster.bootstrap)}, {how}, asked every {every}")
    if sizes is None:
        typer.echo(
            "sizes: not asked: give --group-partitions and the other counts, or run where the clusters can be reached"
        )
        for cluster in settings.clusters:
            a_day, kept = per_thousand(settings, cluster.name)
            cost = f"{size_text(a_day)} written a day, {size_text(kept)} kept for {history}"
            typer.echo(f"cluster {cluster.name}: each 1,000 group-partitions cost about {cost}")
        return
    rows = [("CLUSTER", "TABLE", "SERIES", "ROWS/DAY", "BYTES/DAY", f"KEPT {history}")]
    for size in sizes.tables:
        numbers = (
            f"{size.series:,}",
            f"{size.rows_a_day:,}",
            size_text(size.bytes_a_day),
            size_text(size.kept_bytes),
        )
        rows.append((size.cluster or "-", size.table, *numbers))
    total_rows = sum(size.rows_a_day for size in sizes.tables)
    totals = (f"{sizes.series:,}", f"{total_rows:,}", size_text(sizes.bytes_a_day), size_text(sizes.kept_bytes))
    rows.append(("total", "", *totals))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())
    if sizes.fits:
        typer.echo(f"journal: {judge(settings, counts)}")
