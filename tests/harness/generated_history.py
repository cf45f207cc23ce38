"""A generated day of the demo's clusters in a real InfluxDB, through the agent's own pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lagwatch.cli.demo_history import DemoHistory
from lagwatch.demo.history.story import CLUSTERS
from lagwatch.demo.influxd import Influxd
from lagwatch.sinks.influx.sink import InfluxSink
from tests.harness.grafana import View
from tests.harness.influx import options_for, running_influxd

_END = datetime(2026, 11, 16, 15, 0, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class GeneratedHistory:
    """The server and the end of the day."""

    server: Influxd
    end: float = _END

    def view(self, hours: float = 24, *, hours_ago: float = 0.0, window: str = "2m0s") -> View:
        """A time range of `hours` that ends `hours_ago` before the end."""
        stop = self.end - hours_ago * 3600 + 1
        return View(_rfc3339(stop - hours * 3600), _rfc3339(stop), window, self.server.bucket)


@contextmanager
def generated_day(folder: Path) -> Iterator[GeneratedHistory]:
    """A generated day; the server stops with the `with` block."""
    with running_influxd() as server:
        sink = InfluxSink(options_for(server))
        with DemoHistory(CLUSTERS, _END - 86_400, _END, folder / "journal.db", sink) as history:
            history.write_past()
        yield GeneratedHistory(server)


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
