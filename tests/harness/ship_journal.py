"""A process that ships a journal to InfluxDB while polls continue, until it is killed or finished.

Arguments: journal, url, org, bucket, token, series. It appends a poll every 50 ms while the file `<journal>.live` exists,
and ends when that is removed and nothing is left to ship.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from lagwatch.clock import SystemClock
from lagwatch.journal import Journal
from lagwatch.shipping import Shipper, ShippingRate
from lagwatch.sinks.influx.sink import InfluxOptions, InfluxSink
from tests.harness.journal_load import lag_batch


def main(path: str, url: str, org: str, bucket: str, token: str, series: str) -> None:
    """Ship until nothing is left."""
    clock = SystemClock()
    journal = Journal(path)
    live = Path(f"{path}.live")
    rate = ShippingRate(
        backlog_rows_a_second=10_000_000, first_wait_seconds=0.05, longest_wait_seconds=0.5, idle_seconds=0.05
    )
    shipper = Shipper(journal, InfluxSink(InfluxOptions(url, org, bucket, token, timeout_seconds=5)), clock, rate)

    def poll() -> None:
        while live.exists():
            journal.append([lag_batch(int(series), clock.wall_ms())])
            time.sleep(0.05)

    polling = threading.Thread(target=poll, daemon=True)
    polling.start()
    while True:
        wait = shipper.step()
        cursor = journal.cursor("influxdb")
        if not polling.is_alive() and cursor.live == journal.newest_poll and not cursor.backfill:
            break
        time.sleep(wait)
    journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
