"""`lagwatch lag`: how far consumer groups are behind, from Kafka itself or from an agent's journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from lagwatch.cli import output
from lagwatch.cli.lag_report import LagQuery, LagReport
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
from lagwatch.kafka_names import KAFKA
from lagwatch.snapshot.from_journal import view_journal
from lagwatch.snapshot.lag import Sort
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView

EPILOG = "Example: lagwatch lag --bootstrap kafka1:9092 --group 'billing*' --sort lag --top 20"

_TABLES = {"consumer_lag", "consumer_group", "topic_partition", "group_member"}


def lag(
    bootstrap: Bootstrap = None,
    config: Config = None,
    cluster: ClusterName = None,
    journal: JournalFile = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="groups: names or patterns; may be repeated")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="topics: names or patterns; may be repeated")
    ] = None,
    sort: Annotated[Sort, typer.Option("--sort", help="what rows are sorted by")] = Sort.group,
    top: Annotated[int | None, typer.Option("--top", min=1, metavar="N", help="at most so many rows")] = None,
    min_lag: Annotated[
        int, typer.Option("--min-lag", min=0, metavar="N", help="only rows at least so far behind, or of unknown lag")
    ] = 0,
    watch: Annotated[
        bool, typer.Option("--watch", help="ask again and again; shows which offsets STILL stand")
    ] = False,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="how often --watch asks")] = "5s",
    deadline: DeadlineText = None,
    as_json: Json = False,
) -> None:
    """Show how far consumer groups are behind.

    A lag that is not known is ?, a partition without a commit has -. Exit 1 when something could not be asked or a
    group does not exist, 2 when nothing could be asked.
    """
    exactly_one(bootstrap=bootstrap, config=config, journal=journal)
    every = seconds_in(interval, "--interval")
    patience = None if deadline is None else seconds_in(deadline, "--deadline")
    question = LagQuery(NamePatterns(tuple(group or ())), NamePatterns(tuple(topic or ())), sort, min_lag, top)
    with ExitStack() as stack:
        if journal is not None:
            ask = _journal_asker(journal, cluster)
        else:
            ask = _kafka_asker(stack, bootstrap, config, cluster, question, patience)
        if watch:
            _watch(ask, question, every, as_json=as_json)
        view = ask()
        if view.unreachable:
            raise SourceError(f"cluster {view.cluster}: {view.unreachable}")
        answer = LagReport.of(view, question)
        if as_json:
            output.print_json(answer.document())
        else:
            output.print_lines(answer.table(output.terminal_width()))
        output.print_notes(answer.notes(), as_json=as_json)
        for line in answer.talk():
            output.warn(line)
        raise typer.Exit(answer.exit_code())


_Ask = Callable[[], ClusterView]


def _journal_asker(journal: Path, cluster: str | None) -> _Ask:
    return lambda: view_journal(journal, cluster, _TABLES)


def _kafka_asker(
    stack: ExitStack, bootstrap: str | None, config: Path | None, name: str | None, question: LagQuery,
    patience: float | None,
) -> _Ask:  # fmt: skip
    from lagwatch.cli.live_source import LivePoller, chosen_cluster, watching  # noqa: PLC0415 -- kafka is slow to import

    cluster = watching(chosen_cluster(bootstrap, config, name), question.groups, question.topics)
    return stack.enter_context(LivePoller(cluster, {KAFKA}, deadline_seconds=patience)).poll


def _watch(ask: _Ask, question: LagQuery, every: float, *, as_json: bool) -> None:
    """Until Ctrl-C. A cluster that cannot be asked is shown as such and asked again."""
    if not output.on_terminal() or as_json:
        while True:
            started = time.monotonic()
            answer = LagReport.of(ask(), question)
            if as_json:
                output.print_json(answer.document(), one_to_a_line=True)
            else:
                output.print_lines([answer.headline(), *answer.table(None), *answer.notes(), ""])
            time.sleep(max(0.0, started + every - time.monotonic()))
    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            started = time.monotonic()
            answer = LagReport.of(ask(), question)
            notes = [output.paint(note, "yellow") for note in answer.notes()]
            room = max(1, console.height - len(notes) - 4)
            lines = [answer.headline(), *answer.table(console.width, room), *notes]
            live.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(max(0.0, started + every - time.monotonic()))
