"""`lagwatch demo`: a Kafka cluster with consumer groups that misbehave, and the agent watching them."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from lagwatch.cli import output
from lagwatch.cli.demo_history import HistoryOptions, show_history
from lagwatch.cli.demo_screen import Around, Broker, plain_lines, screen
from lagwatch.cli.demo_stage import CLUSTER_NAME, POLL_SECONDS, Stage, ended_by_signals, set_stage
from lagwatch.cli.demo_watch import JournalWatch, Picture
from lagwatch.cli.options import seconds_in
from lagwatch.demo.kafka_cluster import NEWEST_KAFKA
from lagwatch.demo.workload import LEGEND

EPILOG = "Example: lagwatch demo --headless --every 10s --for 2m"

_REFRESH_SECONDS = 1.0


def demo(
    headless: Annotated[
        bool, typer.Option("--headless", help="print lines instead of a screen; so it is without a terminal")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="headless, one JSON document a line")] = False,
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="how often lines are printed without a screen")
    ] = "10s",
    length: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="end after so long; else with Ctrl-C")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="keep journal, configuration and logs there")
    ] = None,
    version: Annotated[str, typer.Option("--version", metavar="X.Y.Z", help="which Kafka to run")] = NEWEST_KAFKA,
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="DURATION", help="no Kafka: fill an InfluxDB with a made-up past for Grafana"
        ),
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="URL", help="with --history: a running InfluxDB instead of our own")
    ] = None,
) -> None:
    """Start a Kafka cluster with misbehaving consumers, and watch it.

    Everything runs on this machine and is gone afterwards. Needs Java 17, and Maven for the first start.
    """
    interval = seconds_in(every, "--every")
    seconds = float("inf") if length is None else seconds_in(length, "--for")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise typer.BadParameter(f'"{version}" is not a version (try {NEWEST_KAFKA})', param_hint="--version")
    if into is not None and history is None:
        raise typer.BadParameter("goes with --history", param_hint="--into")
    if history is not None:
        _tell_history(HistoryOptions(seconds_in(history, "--history"), into, seconds, keep))
        return
    show = _show_screen if output.on_terminal() and not headless and not as_json else _printing(interval, as_json)
    with ended_by_signals() as ignore_signals:
        try:
            with set_stage(version, keep, output.warn) as stage:
                try:
                    _introduce(stage)
                    show(stage, seconds)
                finally:
                    ignore_signals()
        except KeyboardInterrupt:
            pass  # the ordinary way to end it
    if keep is not None:
        output.warn(f"kept in {keep}: {_own_name()} lag --journal {keep / 'journal.db'}")


def _tell_history(options: HistoryOptions) -> None:
    with ended_by_signals() as ignore_signals:
        try:
            show_history(options, output.warn)
        except KeyboardInterrupt:
            pass  # the ordinary way to end it
        finally:
            ignore_signals()


def _introduce(stage: Stage) -> None:
    """What a person can do with it, said before the screen and still there after it."""
    widest = max(map(len, LEGEND))
    for name, what in LEGEND.items():
        output.warn(f"  {name:<{widest}}  {what}")
    for hint in _hints(stage):
        output.warn(hint)


def _hints(stage: Stage) -> list[str]:
    first = stage.kafka.bootstrap.split(",")[0]
    victim = stage.kafka.brokers[-1]
    back = f"it is back after {stage.restarter.down_seconds:.0f} s"
    influx = stage.influx
    look = [f"  InfluxDB at {influx.url}, user lagwatch, password {influx.password}"] if influx else []
    return [
        "In another terminal (Ctrl-C in this one ends the demo):",
        f"  {_own_name()} lag --journal {stage.journal} --watch",
        f"  {_own_name()} lag --bootstrap {first} --sort lag",
        f"  kill -9 {victim.pid}   takes broker {victim.id} away; {back}",
        *look,
    ]


def _own_name() -> str:
    """How this program was called, so that its hints can be copied."""
    called = sys.argv[0]
    return called if Path(called).name == "lagwatch" and shutil.which("lagwatch") != called else "lagwatch"


_Frame = Callable[[Picture | None, Around], None]


def _show_screen(stage: Stage, seconds: float) -> None:
    console = Console()
    with Live(console=console, auto_refresh=False, screen=True) as live:

        def draw(picture: Picture | None, around: Around) -> None:
            lines = screen(picture, around, console.width, console.height)
            live.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)

        _watch(stage, draw, _REFRESH_SECONDS, seconds)


def _printing(every: float, as_json: bool) -> Callable[[Stage, float], None]:
    def show(stage: Stage, seconds: float) -> None:
        def print_lines(picture: Picture | None, around: Around) -> None:
            if not as_json:
                output.print_lines(plain_lines(picture, around))
            elif picture is not None:
                brokers = [
                    {"broker": broker.id, "pid": broker.pid, "running": broker.running} for broker in around.brokers
                ]
                where = {"bootstrap": stage.kafka.bootstrap, "journal": str(stage.journal), "brokers": brokers}
                output.print_json(where | picture.document(), one_to_a_line=True)

        _watch(stage, print_lines, every, seconds)

    return show


def _watch(stage: Stage, frame: _Frame, every: float, seconds: float) -> None:
    """A frame every so often until the time is over, looking after the brokers each second."""
    watch = JournalWatch(stage.journal, CLUSTER_NAME, LEGEND)
    end, due = time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < end:
        stage.look_after(now)
        if now >= due:
            due = now + every
            frame(watch.look(), _around(stage, now))
        time.sleep(max(0.0, min(1.0, due - time.monotonic(), end - time.monotonic())))


def _around(stage: Stage, now: float) -> Around:
    brokers = [
        Broker(node.id, node.pid, node.running, stage.restarter.back_in_seconds(node.id, now))
        for node in stage.kafka.brokers
    ]
    return Around(stage.kafka.version, brokers, POLL_SECONDS, _hints(stage))
