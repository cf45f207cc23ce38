"""The dashboard of the agent: whether it runs, keeps up, reaches its sources and delivers to its sinks."""

from __future__ import annotations

from grafana.generator import flux, palette
from grafana.generator.boards import Board, Row, Variable
from grafana.generator.panels import (
    NEVER_RED,
    Line,
    Panel,
    coloured_override,
    lines_panel,
    stat_panel,
    table_panel,
    unit_override,
    width_override,
)
from lagwatch.catalogue import AGENT, CLUSTER, SOURCE

_AGENT = flux.chosen("agent")
_CLUSTER = flux.chosen("cluster")
_STILL_POLLED = "filter(fn: (r) => not exists r.retired)"  # a source removed from the configuration is not silent
_NO_AGENT = (
    "no data: no agent wrote in the last 25 minutes. Is it running, and does `influxdb.url` point to this InfluxDB?"
)


def agent() -> Board:
    """The dashboard; the cluster variable filters the panels about sources."""
    return Board(
        "agent",
        "Agent",
        "lagwatch itself: job durations, sources, cursors, journal.",
        (Variable("agent", "Agent", AGENT, several=True), Variable("cluster", "Cluster", CLUSTER, several=True)),
        (
            Row("Now", _numbers()),
            Row("Polling", [_cycles(), _skipped(), _sources(), _durations()]),
            Row("Journal and sinks", [_cursor(), _rejected(), _journal(), _memory()]),
        ),
        range_from="now-6h",
    )


def _numbers() -> list[Panel]:
    def one(
        title: str, field: str, steps: palette.Steps, means: str, red: str, *, unit: str = "short", name: str = ""
    ) -> Panel:
        text = flux.newest(AGENT, field, ["agent", "job"], _AGENT)
        return stat_panel(
            title, text, steps=steps, means=means, red=red, unit=unit, width=4, name=name, no_data=_NO_AGENT
        )

    of_agent = "${__field.labels.agent}"
    answers = f"r.up and (exists r.target or not ({flux.IS_SILENT}))"
    down = flux.newest_rows(
        SOURCE,
        ["up", "retired"],
        ["cluster", "source", "target"],
        _CLUSTER,
        then=[
            _STILL_POLLED,
            flux.reduced({"down": ("0", f"so_far.down + (if {answers} then 0 else 1)")}),
        ],
    )
    return [
        stat_panel(
            "Sources that are down or silent", down, steps=palette.ANY_IS_BAD, width=4, no_data=_NO_AGENT,
            means="Sources that do not respond, or have not been polled for fifteen minutes.",
            red="the table of sources gives the reason for each.",
        ),
        one(
            "Polls waiting to be shipped", "cursor_lag_polls", palette.rising(10, 100),
            "Polls in the journal that a sink does not have yet.",
            "the sink is down or too slow; nothing is lost while the journal has space.",
            name="${__field.labels.job}",
        ),
        one(
            "Rejected rows", "rejected_rows", palette.ANY_IS_WATCHED,
            "Rows that the sink has rejected since the agent last started or reloaded.",
            "yellow only: run `lagwatch journal rejected` for the rows and reasons.",
            name="${__field.labels.job}",
        ),
        one(
            "Rows dropped by the journal", "journal_dropped_rows", palette.ANY_IS_BAD,
            "Rows lost to the size limit, corruption or a full disk.",
            "raise journal.max_size or free the disk.", name=of_agent,
        ),
        one(
            "Journal in memory only", "journal_in_memory", palette.ANY_IS_BAD,
            "1: the journal file cannot be written, and polls are kept in memory.",
            "check whether the disk is full, read-only or missing.", name=of_agent,
        ),
        one(
            "Memory", "memory_bytes", palette.NO_COLOUR, "Resident memory of the agent.", NEVER_RED,
            unit="bytes", name=of_agent,
        ),
    ]  # fmt: skip


def _line(field: str, name: str, fn: str = "max") -> Line:
    return Line(flux.windows(AGENT, field, ["agent", "job"], _AGENT, fn=fn), name)


def _cycles() -> Panel:
    return lines_panel(
        "Duration of each job",
        [_line("cycle_seconds", "${__field.labels.job}")],
        unit="s",
        means="The longest run of each window. It should stay well below the job's interval.",
    )


def _skipped() -> Panel:
    return lines_panel(
        "Skipped polls",
        [_line("skipped_polls", "${__field.labels.job}")],
        means="Runs skipped because the previous run was not finished. A rising line: the job is too slow for its interval.",
    )


def _sources() -> Panel:
    text = flux.newest_rows(
        SOURCE,
        ["up", "since_ms", "last_success_age_seconds", "error", "retired"],
        ["cluster", "source", "target"],
        _CLUSTER,
        then=[
            _STILL_POLLED,
            flux.columns(
                "cluster: r.cluster",
                "source: r.source",
                'target: if exists r.target then r.target else "(whole source)"',
                f"up: if not exists r.target and {flux.IS_SILENT} then {palette.NOT_KNOWN_NOW} else if r.up then 1 else 0",
                "since: r.since_ms",
                "age: r.last_success_age_seconds",
                "error: r.error",
            ),
            'sort(columns: ["up", "cluster", "source", "target"])',
            "limit(n: 300)",
        ],
    )
    return table_panel(
        "Sources, down first",
        text,
        {
            "cluster": "Cluster",
            "source": "Source",
            "target": "Target",
            "up": "Up",
            "since": "Since",
            "age": "Since last success",
            "error": "Why",
        },
        means="Everything the agent polls: 1 responds, 0 does not, STALE has not been polled for fifteen minutes.",
        red="the last column gives the reason; run `lagwatch check` to test each step.",
        overrides={
            "Up": coloured_override(((None, palette.BAD), (1, palette.GOOD))),
            "Since": unit_override("dateTimeAsIso"),
            "Since last success": unit_override("s"),
            "Why": width_override(500),
        },
        width=14,
    )


def _durations() -> Panel:
    text = flux.windows(SOURCE, "duration_seconds", ["cluster", "source"], _CLUSTER, fn="max")
    return lines_panel(
        "Response time of each source",
        [Line(text, "${__field.labels.cluster} ${__field.labels.source}")],
        unit="s",
        means="The maximum of each window. A step up: the cluster responds more slowly.",
        width=10,
        height=9,
    )


def _cursor() -> Panel:
    return lines_panel(
        "Polls waiting to be shipped, by sink",
        [_line("cursor_lag_polls", "${__field.labels.job}")],
        means="A peak is an outage of the sink that has been caught up.",
    )


def _rejected() -> Panel:
    return lines_panel(
        "Rejected rows by sink",
        [_line("rejected_rows", "${__field.labels.job}")],
        means="A step: a sink rejected rows; run `lagwatch journal rejected` to list them.",
    )


def _journal() -> Panel:
    return lines_panel(
        "Size of the journal",
        [_line("journal_bytes", "${__field.labels.agent}")],
        unit="bytes",
        means="It levels off when the configured history is complete.",
    )


def _memory() -> Panel:
    return lines_panel(
        "Memory of the agent",
        [_line("memory_bytes", "${__field.labels.agent}")],
        unit="bytes",
        means="Resident memory; constant after the first minutes.",
    )
