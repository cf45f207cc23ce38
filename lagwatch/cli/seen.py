"""What is known of a cluster at one moment, as the commands show it: batches enter, rows leave.

It comes from asking Kafka (asking.py) or from an agent's journal (journal_view.py); what is shown does not depend on
which of the two it was.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lagwatch.batch import Batch
from lagwatch.catalogue import BUILT_IN
from lagwatch.cli.output import one_line
from lagwatch.errors import LagwatchError
from lagwatch.text import duration_text

KAFKA, CONFIGS, QUORUM, LOGDIRS = "kafka", "kafka_configs", "kafka_quorum", "kafka_logdirs"
_NOT_ASKED = {"source", "event", "group_member"}  # tables that can have rows when no broker answered


@dataclass(frozen=True, slots=True)
class Failed:
    """One thing that could not be asked. `down_seconds` is known only when it was asked before."""

    source: str
    target: str
    reason: str
    since_ms: int
    down_seconds: float | None


def failures_in_words(failures: Iterable[Failed]) -> list[str]:
    """A line for each target and reason; a broker that several jobs found closed is told once."""
    sources: dict[tuple[str, str], list[Failed]] = {}
    for failed in failures:
        sources.setdefault((failed.target, failed.reason), []).append(failed)
    lines = []
    for (target, reason), same in sources.items():
        jobs = ", ".join(failed.source for failed in same)
        what = f"{one_line(target)} ({jobs})" if target else jobs
        down = max((failed.down_seconds for failed in same if failed.down_seconds is not None), default=None)
        since = "" if down is None else f" for {duration_text(down)}"
        lines.append(f"could not ask {what}{since}: {one_line(reason)}")
    return lines


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest batches of a cluster, older ones first.

    `complete` is false when groups may exist that nobody listed. `followed_seconds` is for how long offsets have been
    watched: None when they have been asked only once, so that it is not known whether they move. `overdue` says why the
    whole of it is old.
    """

    cluster: str
    now_ms: int
    batches: Sequence[Batch]
    complete: bool = True
    from_journal: bool = False
    followed_seconds: float | None = None
    overdue: str | None = None

    @property
    def at_ms(self) -> int:
        """When the newest of it was collected."""
        return max((batch.at_ms for batch in self.batches), default=self.now_ms)

    @property
    def failures(self) -> list[Failed]:
        """What could not be asked."""
        failed = []
        for batch in self._of("source"):
            for row in batch.rows.to_pylist():
                if not row["up"]:
                    known = row["last_success_age_seconds"] is not None or self.from_journal
                    down = max(0.0, (self.now_ms - row["since_ms"]) / 1000) if known else None
                    failed.append(Failed(row["source"], row["target"], row["error"] or "", row["since_ms"], down))
        return failed

    @property
    def unreachable(self) -> str | None:
        """Why nothing at all is known of the cluster; None when something is."""
        if any(batch.table not in _NOT_ASKED for batch in self.batches):
            return None
        reasons = [failed.reason for failed in self.failures if failed.source == KAFKA]
        return "; ".join(reasons) or "nothing was asked"

    def columns(self, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
        """These columns of a table, row by row, batch after batch."""
        for batch in self._of(table):
            yield from zip(*(batch.rows[name].to_pylist() for name in names), strict=True)

    def newest_columns(self, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
        """As `columns`, of the newest batch alone: for tables one job writes whole."""
        for batch in self._of(table)[-1:]:
            yield from zip(*(batch.rows[name].to_pylist() for name in names), strict=True)

    def age_seconds(self, table: str) -> float:
        """How long ago the newest batch of a table was collected."""
        newest = [batch.at_ms for batch in self._of(table)[-1:]]
        return max(0.0, (self.now_ms - newest[0]) / 1000) if newest else 0.0

    def merged(self, table: str) -> list[dict[str, Any]]:
        """One row for each key. Several jobs write parts of `broker`, `cluster` and `topic`: what is known wins."""
        tags = [tag.name for tag in BUILT_IN[table].tags if tag.name != "cluster"]
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for batch in self._of(table):
            for row in batch.rows.to_pylist():
                kept = rows.setdefault(tuple(row[tag] for tag in tags), dict.fromkeys(row))
                kept.update({name: value for name, value in row.items() if value is not None})
        return [rows[key] for key in sorted(rows)]

    def _of(self, table: str) -> list[Batch]:
        return [batch for batch in self.batches if batch.table == table]


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Names a person asked for: each exactly, or by a pattern with * ? and [...]. No names mean all."""

    names: tuple[str, ...] = ()

    def __call__(self, name: str) -> bool:
        return not self.names or any(_matches(wanted, name) for wanted in self.names)

    def not_among(self, names: Iterable[str]) -> list[str]:
        """Those that match nothing that exists."""
        known = list(names)
        return [wanted for wanted in self.names if not any(_matches(wanted, name) for name in known)]

    def patterns(self) -> list[re.Pattern[str]]:
        """As regular expressions that match whole names, so that the cluster is asked for these alone."""
        return [re.compile(f"{re.escape(name)}|{fnmatch.translate(name)}") for name in self.names]


def _matches(wanted: str, name: str) -> bool:
    return wanted == name or fnmatch.fnmatchcase(name, wanted)  # a name may itself hold a *


def pick_cluster(names: Collection[str], name: str | None, where: str) -> str:
    """The name asked for, or the only one there is. Raises LagwatchError with the names there are."""
    there_are = f"there are: {', '.join(names)}" if names else "there is none yet"
    if name is not None and name not in names:
        raise LagwatchError(f'{where}: no cluster "{one_line(name)}" ({there_are})')
    if name is None and len(names) != 1:
        raise LagwatchError(f"{where}: name a cluster with --cluster ({there_are})")
    return name if name is not None else next(iter(names))
