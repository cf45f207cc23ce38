"""`lagwatch demo`: starts a Kafka cluster with consumer groups that misbehave, and an agent that monitors them."""

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
from lagwatch.cli.demo_history import HistoryOptions, run_history
from lagwatch.cli.demo_processes import CLUSTER_NAME, POLL_SECONDS, DemoProcesses, interrupt_on_signals, start_demo
from lagwatch.cli.demo_screen import Broker, ScreenContext, plain_lines, screen
from lagwatch.cli.demo_state import DemoState, JournalFollower
from lagwatch.cli.options import seconds_in
from lagwatch.demo.kafka_cluster import NEWEST_KAFKA
from lagwatch.demo.workload import GROUP_DESCRIPTIONS

EPILOG = "Example: lagwatch demo --headless --every 10s --for 2m"

_REFRESH_SECONDS = 1.0
_FIRST_POLL_SECONDS = 60.0  # --for counts from the first poll, or from then if there is none


def demo(
    headless: Annotated[
        bool, typer.Option("--headless", help="print lines instead of a screen; default without a terminal")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="like --headless, one JSON document per line")] = False,
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="how often to print without a screen")
    ] = "10s",
    length: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="end this long after the agent's first poll; default: Ctrl-C"),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="keep journal, configuration and logs in FOLDER")
    ] = None,
    version: Annotated[str, typer.Option("--version", metavar="X.Y.Z", help="Kafka version to run")] = NEWEST_KAFKA,
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="DURATION", help="no Kafka: fill an InfluxDB with generated history for Grafana"
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="URL", help="with --history: use this running InfluxDB"),
    ] = None,
) -> None:
    """Start a Kafka cluster with misbehaving consumers, and watch it.

    Everything runs on this machine and is removed afterwards. Needs Java 17, and for the first start Maven or pyspark.
    """
    interval = seconds_in(every, "--every")
    seconds = float("inf") if length is None else seconds_in(length, "--for")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise typer.BadParameter(f'"{version}" is not a version (try {NEWEST_KAFKA})', param_hint="--version")
    if into is not None and history is None:
        raise typer.BadParameter("needs --history", param_hint="--into")
    if history is not None:
        _run_history(HistoryOptions(seconds_in(history, "--history"), into, seconds, keep))
        return
    show = _show_screen if output.on_terminal() and not headless and not as_json else _printing(interval, as_json)
    with interrupt_on_signals() as ignore_signals:
        try:
            with start_demo(version, keep, output.warn) as processes:
                try:
                    _introduce(processes)
                    show(processes, seconds)
                finally:
                    ignore_signals()
        except KeyboardInterrupt:
            pass  # the normal way to end it
    if keep is not None:
        output.warn(f"kept in {keep}: {_own_name()} status --journal {keep / 'journal.db'}")


def _run_history(options: HistoryOptions) -> None:
    with interrupt_on_signals() as ignore_signals:
        try:
            run_history(options, output.warn)
        except KeyboardInterrupt:
            pass  # the normal way to end it
        finally:
            ignore_signals()


def _introduce(processes: DemoProcesses) -> None:
    """Print the groups and hints before the screen starts: they are still there after it."""
    widest = max(map(len, GROUP_DESCRIPTIONS))
    for name, what in GROUP_DESCRIPTIONS.items():
        output.warn(f"  {name:<{widest}}  {what}")
    for hint in _hints(processes):
        output.warn(hint)


def _hints(processes: DemoProcesses) -> list[str]:
    first = processes.kafka.bootstrap.split(",")[0]
    victim = processes.kafka.brokers[-1]
    back = f"it restarts after {processes.restarter.down_seconds:.0f} s"
    influx = processes.influx
    influx_hint = [f"  InfluxDB at {influx.url}, user lagwatch, password {influx.password}"] if influx else []
    return [
        "In another terminal (Ctrl-C in this one ends the demo):",
        f"  {_own_name()} status --journal {processes.journal} --watch",
        f"  {_own_name()} explain slow --journal {processes.journal}",
        f"  {_own_name()} lag --bootstrap {first} --sort lag",
        f"  kill -9 {victim.pid}   kills broker {victim.id}; {back}",
        *influx_hint,
    ]


def _own_name() -> str:
    """The command this program was started with, so that its hints can be copied."""
    called = sys.argv[0]
    return called if Path(called).name == "lagwatch" and shutil.which("lagwatch") != called else "lagwatch"


_Frame = Callable[[DemoState | None, ScreenContext], None]


def _show_screen(processes: DemoProcesses, seconds: float) -> None:
    console = Console()
    with Live(console=console, auto_refresh=False, screen=True) as live:

        def draw(state: DemoState | None, context: ScreenContext) -> None:
            lines = screen(state, context, console.width, console.height)
            live.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)

        _watch(processes, draw, _REFRESH_SECONDS, seconds)


def _printing(every: float, as_json: bool) -> Callable[[DemoProcesses, float], None]:
    def show(processes: DemoProcesses, seconds: float) -> None:
        def print_lines(state: DemoState | None, context: ScreenContext) -> None:
            if not as_json:
                output.print_lines(plain_lines(state, context))
            elif state is not None:
                brokers = [
                    {"broker": broker.id, "pid": broker.pid, "running": broker.running} for broker in context.brokers
                ]
                where = {"bootstrap": processes.kafka.bootstrap, "journal": str(processes.journal), "brokers": brokers}
                output.print_json(where | state.document(), compact=True)

        _watch(processes, print_lines, every, seconds)

    return show


def _watch(processes: DemoProcesses, frame: _Frame, every: float, seconds: float) -> None:
    """Draw a frame at each interval until the time is over; restart killed brokers every second."""
    follower = JournalFollower(processes.journal, CLUSTER_NAME, GROUP_DESCRIPTIONS)
    end, due = time.monotonic() + _FIRST_POLL_SECONDS + seconds, 0.0
    while (now := time.monotonic()) < end:
        processes.supervise(now)
        if now >= due:
            due = now + every
            state = follower.read()
            if state is not None:
                end = min(end, now + seconds)
            frame(state, _context(processes, now))
        time.sleep(max(0.0, min(1.0, due - time.monotonic(), end - time.monotonic())))


def _context(processes: DemoProcesses, now: float) -> ScreenContext:
    brokers = [
        Broker(node.id, node.pid, node.running, processes.restarter.back_in_seconds(node.id, now))
        for node in processes.kafka.brokers
    ]
    return ScreenContext(processes.kafka.version, brokers, POLL_SECONDS, _hints(processes))
