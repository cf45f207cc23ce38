"""Selects the rows of a poll to write to InfluxDB: thins by table, and sums by topic above the series cap."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import CONSUMER_LAG, CONSUMER_TOPIC, TOPIC_PARTITION
from lagwatch.columns import numbers_of, texts_of
from lagwatch.thinning import FirstOfSpan

log = logging.getLogger(__name__)

RowsChoice = Literal["all", "topic", "off"]
_SPANS_KEPT = 64  # live polls and backlog alternate, so the newest span alone is not enough
_RELIEF = 0.9  # of the cap; partition rows resume only below this


@dataclass(frozen=True, slots=True)
class TableRule:
    """For one table: how often to write its rows, and whether all rows, sums by topic, or none."""

    every_seconds: float = 0
    rows: RowsChoice = "all"


class RowFilter:
    """Thins polls by table, and keeps the number of series below a cap.

    Above the cap, partition rows are replaced by sums by topic, and a warning is logged.
    """

    def __init__(self, rules: Mapping[str, TableRule], max_series: int) -> None:
        self._rules = rules
        self._max_series = max_series
        self._thinning = {
            table: FirstOfSpan(round(rule.every_seconds * 1000), _SPANS_KEPT) for table, rule in rules.items()
        }
        self._series: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}  # by source: time and number
        self.over_cap = False

    def apply(self, batches: Sequence[Batch]) -> list[Batch]:
        """Returns the batches to write."""
        chosen: list[Batch] = []
        for batch in batches:
            rule = self._rules.get(batch.table, TableRule())
            thinning = self._thinning.get(batch.table)
            if rule.rows == "off" or (thinning is not None and not thinning.keeps(batch.key, batch.at_ms)):
                continue
            self._count(batch)
            summed = rule.rows == "topic" or (
                self.over_cap and batch.table in (CONSUMER_LAG.name, TOPIC_PARTITION.name)
            )
            if not summed:
                chosen.append(batch)
            elif batch.table == CONSUMER_LAG.name:
                chosen.append(sum_by_topic(batch))
        return chosen

    def _count(self, batch: Batch) -> None:
        """Count the series of a batch; sources that write to one table write the same series."""
        sources = self._series.setdefault((batch.table, batch.cluster), {})
        at_ms, number = sources.get(batch.source, (0, 0))
        # A second batch of the same time is a part of one that was rejected.
        sources[batch.source] = (batch.at_ms, max(len(batch), number) if at_ms == batch.at_ms else len(batch))
        total = sum(max(number for _, number in counted.values()) for counted in self._series.values())
        if not self.over_cap and total > self._max_series:
            self.over_cap = True
            log.warning(
                "series cap exceeded, writing sums by topic instead of partition rows series=%d max_series=%d; "
                "raise influxdb.max_series, or exclude topics or groups",
                total,
                self._max_series,
            )
        elif self.over_cap and total < _RELIEF * self._max_series:
            self.over_cap = False
            log.info(
                "series below the cap, writing partition rows again series=%d max_series=%d", total, self._max_series
            )


def sum_by_topic(batch: Batch) -> Batch:
    """The lag of partitions summed by group and topic."""
    group, topic = texts_of(batch.rows, "group"), texts_of(batch.rows, "topic")
    lag, still = numbers_of(batch.rows, "lag"), numbers_of(batch.rows, "seconds_since_moved")
    stale = numbers_of(batch.rows, "stale")
    order = np.lexsort((topic.codes, group.codes))
    group_code, topic_code = group.codes[order], topic.codes[order]
    changes = (np.diff(group_code) != 0) | (np.diff(topic_code) != 0)
    first = np.flatnonzero(np.concatenate((np.ones(min(1, len(order)), dtype=bool), changes)))
    if not len(first):
        return make_batch(CONSUMER_TOPIC, batch.cluster, batch.at_ms, {"group": [], "topic": []}, source=batch.source)
    known = (lag.values * lag.known)[order]
    return make_batch(
        CONSUMER_TOPIC,
        batch.cluster,
        batch.at_ms,
        {
            "group": [group.values[code] for code in group_code[first].tolist()],
            "topic": [topic.values[code] for code in topic_code[first].tolist()],
            "partitions": np.diff(np.append(first, len(order))),
            "total_lag": np.add.reduceat(known, first),
            "max_lag": np.maximum.reduceat(known, first),
            "unknown_lag_partitions": np.add.reduceat((~lag.known[order]).astype(np.int64), first),
            "stale_partitions": np.add.reduceat(stale.values[order].astype(np.int64), first),
            "seconds_since_moved": np.minimum.reduceat(still.values[order], first),
        },
        source=batch.source,
    )
