"""`lagwatch cluster`: brokers, controller and replicas, from Kafka or from an agent's journal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lagwatch.cli import output
from lagwatch.cli.cluster_balance import balance_lines
from lagwatch.cli.cluster_table import BROKER_COLUMNS, PARTITION_COLUMNS, broker_cells, is_troubled, partition_cells
from lagwatch.cli.options import (
    Bootstrap,
    ClusterName,
    Config,
    DeadlineText,
    JournalFile,
    Json,
    exactly_one,
    seconds_in,
)
from lagwatch.errors import SourceError
from lagwatch.snapshot.documents import health_document
from lagwatch.snapshot.from_journal import view_journal
from lagwatch.snapshot.health import Health
from lagwatch.snapshot.view import ClusterView, failure_lines
from lagwatch.source_names import CONFIGS, KAFKA, LOGDIRS, QUORUM

EPILOG = "Example: lagwatch cluster --config lagwatch.yml --cluster east"

_TABLES = {"broker", "cluster", "topic", "topic_partition"}


def cluster(
    bootstrap: Bootstrap = None,
    config: Config = None,
    name: ClusterName = None,
    journal: JournalFile = None,
    top: Annotated[int, typer.Option("--top", min=0, metavar="N", help="show at most N bad partitions")] = 20,
    deadline: DeadlineText = None,
    as_json: Json = False,
) -> None:
    """Show the health of a cluster: brokers, controller, replicas.

    Exit 1 when replicas are out of sync, partitions are offline, there is no controller or something could not be
    queried, 2 when nothing could be queried.
    """
    exactly_one(bootstrap=bootstrap, config=config, journal=journal)
    deadline_seconds = None if deadline is None else seconds_in(deadline, "--deadline")
    view = view_journal(journal, name, _TABLES) if journal else _poll(bootstrap, config, name, deadline_seconds)
    if view.unreachable:
        raise SourceError(f"cluster {view.cluster}: {view.unreachable}")
    health = Health(view)
    if as_json:
        output.print_json(health_document(health))
    else:
        output.print_lines(health_lines(health, top, output.terminal_width()))
    notes = failure_lines(view.failures) + ([view.overdue] if view.overdue else [])
    output.print_notes(notes, as_json=as_json)
    raise typer.Exit(output.PROBLEM if health.problems() else output.OK)


def health_lines(health: Health, top: int, width: int | None) -> list[str]:
    """The text for the terminal: totals, brokers, controller, then bad partitions."""
    lines = [output.paint(health.headline(), "bright_white", bold=True)]
    if health.brokers:
        head, *rows = output.table_lines(BROKER_COLUMNS, broker_cells(health.brokers), width)
        troubled = [is_troubled(row) for row in health.brokers]
        lines += ["", output.heading(head), *_painted(rows, troubled)]
    line = health.controller_line()
    lines += ["", output.paint(line, "red", bold=True) if health.no_controller else line]
    bad = health.bad_partitions
    lines += [output.paint(count, "red") for count in _counts(health)] or [health.in_sync_line()]
    suspect = health.suspect_line()
    lines += [output.paint(suspect, "red", bold=True)] if suspect else []
    preferred = health.preferred_line()
    lines += [preferred] if preferred else []
    lines += [output.paint(line, "red") for line in health.disagreements()]
    lines += balance_lines(health, width)
    if bad[:top]:
        head, *rows = output.table_lines(PARTITION_COLUMNS, partition_cells(bad[:top]), width)
        lines += ["", output.heading(head), *_painted(rows, [row["offline"] for row in bad[:top]])]
    return lines + output.more(len(bad) - top, "partition") * bool(bad)


def _counts(health: Health) -> list[str]:
    names = ("offline_partitions", "under_min_isr_partitions", "under_replicated_partitions")
    if all(health.totals.get(name) is None for name in names):
        return ["replicas: unknown"]
    return health.partition_problems()


def _painted(lines: Sequence[str], marked: Sequence[bool]) -> list[str]:
    return [output.paint(line, "red") if bad else line for line, bad in zip(lines, marked, strict=True)]


def _poll(bootstrap: str | None, config: Path | None, name: str | None, deadline_seconds: float | None) -> ClusterView:
    from lagwatch.cli.live_source import LivePoller, choose_cluster, select_all_topics  # noqa: PLC0415 -- kafka is slow to import

    found = select_all_topics(choose_cluster(bootstrap, config, name))
    with LivePoller(found, {KAFKA, CONFIGS, QUORUM, LOGDIRS}, deadline_seconds=deadline_seconds) as poller:
        return poller.poll()
