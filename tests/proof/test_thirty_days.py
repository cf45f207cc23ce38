"""A view of thirty days of the Overview over 2,000 groups of one-minute points: no query takes longer than three seconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.harness.grafana import EVERYTHING, View, dashboards, filled_in, queries
from tests.harness.influx import rows, running_influxd
from tests.harness.thirty_days import DAYS, load

_END = int(datetime(2026, 11, 16, tzinfo=UTC).timestamp())
_LIMIT_SECONDS = 3.0


def test_the_overview_of_thirty_days_is_quick() -> None:
    with running_influxd() as server:
        started = time.monotonic()
        values = load(server, _END)
        print(f"{values:,} values loaded in {(time.monotonic() - started) / 60:.1f} min")
        start, stop = (
            datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (_END - DAYS * 86_400, _END + 1)
        )
        view = View(start, stop, "1h0m0s", server.bucket)  # what Grafana makes of thirty days on 900 pixels
        took: dict[str, list[float]] = {}
        for _ in range(3):
            for query in queries("overview", dashboards()["overview"]):
                began = time.monotonic()
                found = rows(server, filled_in(query.text, {"cluster": EVERYTHING}, view))
                took.setdefault(query.place, []).append(time.monotonic() - began)
                assert found, query.place
    for place, seconds in sorted(took.items(), key=lambda item: -max(item[1])):
        print(f"{max(seconds):6.2f} s at most, first {seconds[0]:.2f} s: {place}")
    assert max(max(seconds) for seconds in took.values()) <= _LIMIT_SECONDS
