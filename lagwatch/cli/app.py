"""The command line: `lagwatch <command>`. Data on stdout, messages on stderr; exit 0 OK, 1 a problem, 2 failed.

A command is imported only when it runs: Kafka's client alone takes half a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from lagwatch.errors import LagwatchError

if TYPE_CHECKING:
    from lagwatch.config import ClusterSettings
    from lagwatch.config.capacity import Counts

_FAILED, _INTERRUPTED = 2, 130


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """Where a command is defined: a function with an EPILOG in its module, or one that builds an app of sub-commands."""

    module: str
    attribute: str
    summary: str
    builds_app: bool = False

    def load(self, name: str) -> Any:
        """Import the command. Raises LagwatchError when that fails."""
        try:
            module = import_module(f"lagwatch.cli.{self.module}")
        except ModuleNotFoundError as error:
            raise LagwatchError(f"`lagwatch {name}` cannot run: {error}") from None
        found: Callable[..., Any] = getattr(module, self.attribute)
        if self.builds_app:
            app = found(count_cluster) if name == "config" else found()
        else:
            app = typer.Typer(rich_markup_mode=None, add_completion=False)
            app.command(name, epilog=getattr(module, "EPILOG", None))(found)
        command = typer.main.get_command(app)
        command.name = name
        return command


# In the order a newcomer needs them.
COMMANDS = {
    "demo": CommandSpec("demo_command", "demo", "Start a Kafka cluster with misbehaving consumers, and watch it."),
    "status": CommandSpec("status_command", "status", "Show the status of consumer groups and why."),
    "explain": CommandSpec("explain_command", "explain", "Explain the verdict on a group, rule by rule."),
    "lag": CommandSpec("lag_command", "lag", "Show how far consumer groups are behind."),
    "cluster": CommandSpec(
        "cluster_command", "cluster", "Show the health of a cluster: brokers, controller, replicas."
    ),
    "check": CommandSpec("check_command", "check", "Check the connection to each cluster, step by step."),
    "config": CommandSpec(
        "config_command", "build_config_app", "Check or show a configuration, or print an example.", True
    ),
    "run": CommandSpec("run_command", "run", "Run the agent until stopped."),
    "classify": CommandSpec("classify_command", "classify", "Evaluate windows from standard input as Burrow does."),
    "ship": CommandSpec("ship_command", "ship", "Send a past time range to InfluxDB again."),
    "jmx": CommandSpec("jmx_command", "build_jmx_app", "List and read the MBeans of a JVM.", True),
    "journal": CommandSpec("journal_command", "build_journal_app", "Print the contents of an agent's journal.", True),
}


def count_cluster(cluster: ClusterSettings) -> Counts:
    """Groups, topics, partitions and brokers of a cluster. Raises SourceError."""
    from lagwatch.cli import live_source  # noqa: PLC0415 -- `config show` needs no Kafka

    return live_source.count_cluster(cluster)


class _Commands(TyperGroup):
    """The commands by name, each imported when it is needed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # names, for lists and suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        del ctx
        return COMMANDS[cmd_name].load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, spec.summary) for name, spec in COMMANDS.items()])


app = typer.Typer(
    cls=_Commands,
    help="Kafka consumer lag and cluster health.",
    epilog="Example: lagwatch lag --bootstrap kafka1:9092",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"lagwatch {version('lagwatch')}")
        except PackageNotFoundError:
            typer.echo("lagwatch (not installed)")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code. Prints a LagwatchError as a message, not as a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # any group id, in any locale
    code: Any = 0
    try:
        app(args=arguments, prog_name="lagwatch")
    except SystemExit as end:
        code = end.code
    except LagwatchError as error:
        typer.echo(f"lagwatch: {error}", err=True)
        code = _FAILED
    except KeyboardInterrupt:
        code = _INTERRUPTED
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has closed the pipe; else Python would print an error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
