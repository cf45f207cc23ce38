"""Tables, escapes and the shape of the command line itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from lagwatch.cli import output
from lagwatch.cli.app import COMMANDS, app
from lagwatch.cli.output import TableColumn, table_lines
from lagwatch.text import counted, one_line
from tests.harness.cli import lagwatch

HOSTILE = [
    ("plain", "plain"),
    ("two words, 'quoted' \"twice\"", "two words, 'quoted' \"twice\""),
    ("line\nbreak\tand tab", "line\\nbreak\\tand tab"),
    ("\x1b[31mred", "\\x1b[31mred"),
    ("right\u202eleft", "right\\u202eleft"),
    ("", '""'),
    (" blanks ", '" blanks "'),
    ("🎉 日本語", "🎉 日本語"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_any_text_fits_on_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_columns_are_aligned_by_what_they_take_on_a_screen() -> None:
    columns = (TableColumn("GROUP"), TableColumn("LAG", right=True))
    lines = table_lines(columns, [["日本語", "5"], ["🎉", "12345"], ["a\nb", "0"]])
    assert lines == ["GROUP     LAG", "日本語      5", "🎉      12345", "a\\nb        0"]
    assert len({cell_len(line) for line in lines}) == 1


def test_a_narrow_terminal_cuts_long_names_and_a_pipe_does_not() -> None:
    columns = (TableColumn("GROUP", shrinks=True), TableColumn("LAG", right=True))
    rows = [["g" * 200, "1"], ["short", "2"]]
    cut = table_lines(columns, rows, width=40)
    assert {cell_len(line) for line in cut} == {40}
    assert cut[1] == "g" * 34 + "…" + "    1"
    assert "g" * 200 in table_lines(columns, rows)[1]


def test_what_may_not_shrink_stays_whole_on_any_terminal() -> None:
    [_, line] = table_lines((TableColumn("GROUP", shrinks=True), TableColumn("HOST")), [["g" * 50, "h" * 50]], width=20)
    assert line.endswith("h" * 50)


def test_counts_and_left_out_rows_read_well() -> None:
    assert counted(1, "voter") == "1 voter"
    assert counted(1200, "row") == "1,200 rows"
    assert output.more(37, "partition") == ["... and 37 more partitions"]
    assert output.more(0, "partition") == []


def test_help_lists_every_command_without_importing_kafka() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    listed = result.stdout.partition("Commands:\n")[2].splitlines()[: len(COMMANDS)]
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    code = "import lagwatch.cli, sys; assert not {'kafka', 'pyarrow', 'pydantic'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_help_of_a_command_begins_with_its_summary_and_ends_with_an_example(name: str) -> None:
    shown = " ".join(CliRunner().invoke(app, [name, "--help"]).stdout.split())
    assert COMMANDS[name].summary.rstrip(".") in shown
    if not COMMANDS[name].builds_app:
        assert f"Example: lagwatch {name} " in shown.rpartition("--help")[2]


def test_usage_errors_exit_2_and_the_version_is_printed() -> None:
    assert lagwatch("--version").stdout.startswith("lagwatch ")
    assert lagwatch("lga").code == 2
    assert "Did you mean 'lag'?" in lagwatch("lga").stderr
    assert lagwatch("lag").code == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--bootstrap", "kafka1"], '--bootstrap: "kafka1" has no port (write host:port, such as kafka1:9092)'),
        (["--bootstrap", ","], "--bootstrap: needs host:port"),
        (["--bootstrap", "a:1", "--cluster", "east"], "--cluster names a cluster of --config or --journal"),
        (["--bootstrap", "a:1", "--journal", "x"], "not both --bootstrap and --journal"),
        (["--bootstrap", "a:1", "--interval", "5"], '"5" is a duration without a unit (try 5s)'),
        (["--config", "/nowhere.yml"], "/nowhere.yml: no such file"),
        (["--journal", "/nowhere.db"], "/nowhere.db: there is no journal"),
    ],
)
def test_a_failure_is_a_message_and_not_a_traceback(arguments: list[str], expected: str) -> None:
    ran = lagwatch("lag", *arguments)
    assert ran.code == 2
    assert expected in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""
