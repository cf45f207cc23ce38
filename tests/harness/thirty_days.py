"""Thirty days of one-minute points of 2,000 groups in InfluxDB, with the clusters, brokers, sources and events around them.

Lines are written series by series, the fastest order for InfluxDB; the agent writes poll by poll, with the same result.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import numpy as np

from lagwatch.demo.influxd import Influxd

GROUPS, DAYS, CLUSTERS = 2000, 30, ("east", "west")
_MINUTES = 1440
_GROUPS_A_REQUEST = 100
_COUNTS = (
    "brokers", "active_controllers", "under_replicated_partitions", "offline_partitions", "under_min_isr_partitions",
    "not_preferred_leader_partitions", "suspect_broker", "topics", "partitions", "groups", "quorum_max_lag",
    "groups_ok", "groups_warn", "groups_err", "groups_stop", "groups_stall", "groups_rewind", "groups_stale",
)  # fmt: skip


def load(server: Influxd, end: int) -> int:
    """Write all points up to `end` (wall seconds); returns the number of values."""
    values = 0
    for day in range(DAYS):
        times = [end - (DAYS - day) * 86_400 + 60 * (minute + 1) for minute in range(_MINUTES)]
        for lines in _day(times, np.random.default_rng(day)):
            _write(server, "\n".join(lines))
            values += sum(line.count("=") - line.split(" ", 1)[0].count("=") for line in lines[:1]) * len(lines)
    _write(server, "\n".join(_last_rows(end)))
    return values


def _day(times: list[int], random: np.random.Generator) -> Iterator[list[str]]:
    for first in range(0, GROUPS, _GROUPS_A_REQUEST):
        lines: list[str] = []
        for group in range(first, first + _GROUPS_A_REQUEST):
            lag = random.integers(0, 10_000, _MINUTES).tolist()
            status = random.choice([1, 1, 1, 1, 1, 1, 1, 1, 2, 4], _MINUTES).tolist()
            start = f"consumer_group,cluster={CLUSTERS[group % 2]},group=group-{group:04d} "
            lines += [
                f"{start}status={s}i,stale=false,total_lag={n}i,max_lag_seconds={n / 10} {at}"
                for s, n, at in zip(status, lag, times, strict=True)
            ]
        yield lines
    for cluster in CLUSTERS:
        numbers = random.integers(0, 50, (_MINUTES, len(_COUNTS))).tolist()
        yield [
            f"cluster,cluster={cluster} " + ",".join(f"{n}={v}i" for n, v in zip(_COUNTS, row, strict=True)) + f" {at}"
            for row, at in zip(numbers, times, strict=True)
        ]
        yield [f"broker,cluster={cluster},broker={b} registered=true {at}" for b in (1, 2, 3) for at in times]
        yield [
            f"source,cluster={cluster},source=kafka,target=broker\\ {b} up=true {at}" for b in (1, 2, 3) for at in times
        ]
    for kind in ("status", "rebalance"):  # one of each per group and day
        yield [
            f"event,cluster={CLUSTERS[group % 2]},kind={kind},subject=group-{group:04d} "
            f'before="OK",after="WARN",why="lag grew" {times[group % _MINUTES]}'
            for group in range(GROUPS)
        ]


def _last_rows(end: int) -> list[str]:
    """Fields that dashboards read from the newest rows only: reasons and forecasts."""
    groups = [
        f"consumer_group,cluster={CLUSTERS[group % 2]},group=group-{group:04d} "
        f'why="lag grew from 10 to {group} over ten polls",falling_behind=true,catch_up_seconds={group}.5 {at}'
        for group in range(GROUPS)
        for at in range(end - 1500, end + 1, 60)
    ]
    down = [
        f'source,cluster=east,source=kafka,target=broker\\ 9 up=false,error="refused",last_success_age_seconds=60 {end}'
    ]
    return groups + down


def _write(server: Influxd, lines: str) -> None:
    address = f"{server.url}/api/v2/write?org={server.org}&bucket={server.bucket}&precision=s"
    request = urllib.request.Request(address, lines.encode(), method="POST")  # noqa: S310  # always loopback
    request.add_header("Authorization", f"Token {server.token}")
    with urllib.request.urlopen(request, timeout=300):  # noqa: S310
        pass
