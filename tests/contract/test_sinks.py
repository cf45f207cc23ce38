"""The contract of every sink, including the in-memory one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BUILT_IN, CLUSTER, EVENT, TOPIC
from lagwatch.clock import SystemClock
from lagwatch.demo.influxd import Influxd
from lagwatch.errors import SinkError
from lagwatch.protocols import Sink
from lagwatch.sinks.archive.sink import ArchiveSink, read_archive
from lagwatch.sinks.influx.sink import InfluxSink
from tests.harness.influx import options_for, per_series, running_influxd
from tests.harness.ports import closed_port
from tests.harness.sinks import MemorySink

HOUR_MS = 3_600_000
START_MS = SystemClock().wall_ms() // HOUR_MS * HOUR_MS - 5 * HOUR_MS


@dataclass(frozen=True, slots=True)
class SinkCase:
    """A sink, how many rows of a table have arrived, and one of its kind whose target is not there."""

    sink: Sink
    arrived: Callable[[str], int]
    unreachable: Callable[[], Sink]


@pytest.fixture(scope="module")
def influx() -> Iterator[Influxd]:
    with running_influxd() as server:
        yield server


@pytest.fixture(params=["influxdb", "archive", "memory"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkCase]:
    made = {"influxdb": _influx, "archive": _archive, "memory": _memory}[request.param](request, tmp_path)
    yield made
    made.sink.close()


def _influx(request: pytest.FixtureRequest, _folder: Path) -> SinkCase:
    server: Influxd = request.getfixturevalue("influx")
    server.bucket = f"contract-{abs(hash(request.node.name))}"
    org = server.api_request("/api/v2/orgs")["orgs"][0]["id"]
    server.api_request("/api/v2/buckets", {"name": server.bucket, "orgID": org, "retentionRules": []})
    fields = {"cluster": "brokers", "topic": "partitions", "event": "why"}

    def arrived(table: str) -> int:
        return sum(per_series(server, table, fields[table], "count").values())

    def unreachable() -> Sink:
        options = options_for(server)
        return InfluxSink(type(options)(f"http://127.0.0.1:{closed_port()}", "o", "b", "t"))

    return SinkCase(InfluxSink(options_for(server)), arrived, unreachable)


def _archive(_request: pytest.FixtureRequest, folder: Path) -> SinkCase:
    root = folder / "archive"
    root.mkdir()

    def sink(where: Path) -> ArchiveSink:
        return ArchiveSink(str(where), retention_days=30, catalogue=BUILT_IN, clock=SystemClock(), spool_folder=folder)

    def arrived(table: str) -> int:
        return int(read_archive(str(root), BUILT_IN[table]).num_rows)

    (folder / "file").write_text("a file where the archive's folder should be")
    return SinkCase(sink(root), arrived, lambda: sink(folder / "file" / "archive"))


def _memory(_request: pytest.FixtureRequest, _folder: Path) -> SinkCase:
    sink = MemorySink()

    def unreachable() -> Sink:
        failing = MemorySink()
        failing.fails = lambda _: SinkError("not there", retriable=True)
        return failing

    return SinkCase(sink, lambda table: sum(key[0] == table for key in sink.points), unreachable)


def polls() -> list[tuple[int, list[Batch]]]:
    """Six polls over three hours, then one much later, so that a sink which keeps hours has finished them."""
    times = [START_MS + minutes * 60_000 for minutes in (1, 2, 61, 62, 121, 122, 250)]
    return [(number, _batches(number, at_ms)) for number, at_ms in enumerate(times, 1)]


def _batches(number: int, at_ms: int) -> list[Batch]:
    events = {"kind": ["rebalance"] * 2, "subject": ["a", "b"], "why": ["x", "y"]}
    return [
        make_batch(CLUSTER, "east", at_ms, {"brokers": [number]}),
        make_batch(TOPIC, "east", at_ms, {"topic": ["t", 'h"o\\s,t=i le'], "partitions": [1, 2]}),
        make_batch(EVENT, "east", at_ms, events),
    ]


def test_everything_arrives_once_though_it_is_written_twice(case: SinkCase) -> None:
    settled = 0
    for _ in range(2):
        for number, batches in polls():
            case.sink.write(number, batches)
            assert case.sink.settled(number) <= number
            settled = max(settled, case.sink.settled(number))
    assert settled >= 6
    found = {table: case.arrived(table) for table in ("cluster", "topic", "event")}
    assert found == {"cluster": 7, "topic": 14, "event": 14}


def test_an_unreachable_target_is_a_retriable_error(case: SinkCase) -> None:
    sink = case.unreachable()
    errors = []
    for number, batches in polls():
        try:
            sink.write(number, batches)
        except SinkError as error:
            errors.append(error)
    assert errors
    assert all(error.retriable and str(error) for error in errors)
    sink.close()


def test_it_may_be_closed_before_anything_was_written_and_twice(case: SinkCase) -> None:
    case.sink.close()
    case.sink.close()
