"""Options that several commands share: the data source, and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lagwatch.config.units import parse_duration

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT[,...]",
        help="bootstrap brokers; sufficient for a cluster without TLS and login",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="configuration file with the cluster, its TLS and SASL settings"),
]
AgentConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="configuration file of an agent: reads its journal, or with --for polls Kafka"
    ),
]
WatchFor = Annotated[
    str | None,
    typer.Option("--for", metavar="DURATION", help="poll the cluster for this long; default with --bootstrap: 2m"),
]
ClusterName = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="the cluster, if there are several")]
JournalFile = Annotated[
    Path | None, typer.Option("--journal", metavar="FILE", help="read an agent's journal instead of polling Kafka")
]
DeadlineText = Annotated[
    str | None,
    typer.Option(
        "--deadline", metavar="DURATION", help="how long to wait for brokers; default: 5s, or that of --config"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def seconds_in(text: str, option: str) -> float:
    """A duration such as 5s, above zero. A mistake is a usage error."""
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(f'"{text}" {error}', param_hint=option) from None
    if seconds <= 0:
        raise typer.BadParameter("must be above zero", param_hint=option)
    return seconds


def exactly_one(**options: object) -> None:
    """Check that exactly one of these options was given."""
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        names = [f"--{name}" for name in options]
        wanted = f"{', '.join(names[:-1])} or {names[-1]}"
        but = f"not both --{given[0]} and --{given[1]}" if given else "none was"
        raise typer.BadParameter(f"one of {wanted} must be given, {but}")
