"""A pipeline's memory: saved as a checkpoint, and brought back from one with the polls written after it.

What verdicts rest on is played again from the tail, poll by poll, so that a restart changes no verdict. Of the rest the
newest batches are enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch
from lagwatch.clock import Moment
from lagwatch.columns import numbers_of, strings_of
from lagwatch.journal import Checkpoint, Poll
from lagwatch.pipeline.checkpoint import unpack
from lagwatch.pipeline.pipeline import COMMITS_SOURCE, Pipeline
from lagwatch.pipeline.queries.timestamps import TABLE as END_HISTORY
from lagwatch.protocols import Collected
from lagwatch.queries import TailContent
from lagwatch.verdict.rules import numbers_after
from lagwatch.verdict.status import VerdictRule
from lagwatch.windows import serialize

NEWEST = ("topic", "topic_partition", "consumer_group", "consumer_lag", "group_member", "cluster", "source")
REPLAYED = (*NEWEST, "commit", "event")
_KAFKA_JOB = {"topic", "topic_partition", "consumer_group", "consumer_lag"}
_LAG_COLUMNS = ["group", "topic", "partition", "committed_offset", "seconds_since_moved", "age_seconds"]
# What a row is judged by only if markers do not explain its lag.
_MORE_THAN_MARKERS = numbers_after(VerdictRule.ONLY_MARKERS)
_WINDOWS = (serialize.ENDS, serialize.WINDOWS)


class ClusterState:
    """A pipeline with what a restart needs of it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._tails = pipeline.judge.tailing  # as configured now; an earlier life may have been configured otherwise
        self._newest: dict[tuple[str, str], Batch] = {}

    def observe(self, source: str, collected: Collected, duration_seconds: float, now: Moment) -> list[Batch]:
        """As `Pipeline.observe`, and remembers."""
        batches = self.pipeline.observe(source, collected, duration_seconds, now)
        self._remember(batches)
        return batches

    def _remember(self, poll: Iterable[Batch]) -> None:
        batches = list(poll)
        by_kafka_job = any(batch.table == "consumer_lag" for batch in batches)  # others write parts of these tables too
        for batch in batches:
            if batch.table == "source" and len(batch):
                self._newest["source", batch.rows["source"][0].as_py()] = batch
            elif batch.table in NEWEST and by_kafka_job:
                self._newest[batch.table, ""] = _slim(batch)

    def save(self, at_ms: int) -> Iterator[Batch]:
        """Everything a restart needs."""
        cluster = self.pipeline.cluster
        yield from self._newest.values()
        yield self.pipeline.write_times.save(cluster, at_ms)
        for table, rows in serialize.save(self.pipeline.judge.store):
            yield Batch(table, cluster, at_ms, rows)

    def load(self, saved: Sequence[Batch], now: Moment) -> None:
        """Go on from a checkpoint."""
        self._remember(batch for batch in saved if batch.table in NEWEST)
        self._restore(now)
        judge = self.pipeline.judge
        serialize.load(judge.store, [(batch.table, batch.rows) for batch in saved if batch.table in _WINDOWS])
        for batch in saved:
            if batch.table == END_HISTORY:
                self.pipeline.write_times.load(batch)
        newest = {table: batch for (table, _), batch in self._newest.items()}
        if "group_member" in newest:
            judge.observe_members(newest["group_member"])
        self._take_up_clock(newest)
        # What is kept is numbered as its source numbers it: by positions of the topic, or by polls if it was never read.
        judge.tailing = self.pipeline.sources.is_up(COMMITS_SOURCE)

    def replay(self, poll: Sequence[Batch], now: Moment) -> None:
        """Live through a poll of an earlier life again."""
        judge = self.pipeline.judge
        batches = {batch.table: batch for batch in poll}
        self._remember(poll)
        if "event" in batches:
            judge.drop(*_gone(batches["event"]))
        if "commit" in batches:
            judge.observe_commits(batches["commit"], batches["commit"].at_ms)
        if batches.keys() >= _KAFKA_JOB - {"topic"} and "cluster" in batches:
            self._replay_poll(batches, now)
        if "source" in batches and COMMITS_SOURCE in strings_of(batches["source"].rows, "source"):
            self.pipeline.sources.restore(batches["source"], now)
            judge.use_topic(tailing=self.pipeline.sources.is_up(COMMITS_SOURCE))

    def resume(self, now: Moment) -> None:
        """The earlier life is over: go on from here."""
        self._restore(now)

    def go_on(self) -> None:
        """From now on commits come from where the configuration says, wherever they came from in the earlier life."""
        if not self._tails:
            self._newest.pop(("source", COMMITS_SOURCE), None)
            self.pipeline.judge.use_topic(tailing=False)

    def _replay_poll(self, batches: dict[str, Batch], now: Moment) -> None:
        pipeline = self.pipeline
        if "group_member" in batches:
            pipeline.judge.observe_members(batches["group_member"])
        newest = {table: batch for (table, _), batch in self._newest.items()}
        steady_ms = self._take_up_clock(newest)
        if "topic" in newest:
            pipeline.partitions.restore(batches["topic_partition"], newest["topic"], now)
            at_ms = batches["topic_partition"].at_ms
            ended_ms = at_ms + _duration_ms(batches)
            pipeline.write_times.observe(batches["topic_partition"], {}, at_ms, ended_ms)
            pipeline.commits.restore(batches["consumer_lag"], now)
            ages = partial(pipeline.write_times.lag_at, now_ms=ended_ms)  # keeps what those who are behind need
            pipeline.commits.lag(pipeline.cluster, pipeline.partitions.ends(), ages, now)
        lag = batches["consumer_lag"]
        pipeline.judge.observe_poll(
            batches["topic_partition"], lag, batches["consumer_group"], steady_ms, left_by_verdicts(lag)
        )

    def _restore(self, now: Moment) -> None:
        """Partitions, groups, commits and sources as they were last."""
        pipeline = self.pipeline
        kept = {table: batch for (table, _), batch in self._newest.items()}
        if kept.keys() >= _KAFKA_JOB:
            pipeline.partitions.restore(kept["topic_partition"], kept["topic"], now)
            pipeline.groups.restore(kept["consumer_group"], now)
            pipeline.statuses.restore(kept["consumer_group"])
            pipeline.commits.restore(kept["consumer_lag"], now)
        for (table, _), batch in self._newest.items():
            if table == "source":
                pipeline.sources.restore(batch, now)

    def _take_up_clock(self, newest: dict[str, Batch]) -> int:
        """The steady time of the newest poll."""
        batch = newest.get("cluster")
        if batch is None:
            return 0
        steady_ms = batch.rows["steady_ms"][0].as_py() or batch.at_ms
        self.pipeline.steady.resume(steady_ms, batch.at_ms)
        self.pipeline.judge.polled_ms = steady_ms
        return int(steady_ms)


def _slim(batch: Batch) -> Batch:
    """Without the columns no restart needs: of all tables this is the largest, and it is there twice during a poll."""
    if batch.table != "consumer_lag":
        return batch
    return replace(batch, rows=batch.rows.select(_LAG_COLUMNS))


class Written(Protocol):
    """A journal, as an agent or a reader holds it."""

    def load_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that is whole."""

    def tail(self, after_poll: int = 0, *, tables: Collection[str] | None = None) -> Iterator[Poll]:
        """Every poll after that one."""


def recall(journal: Written, memories: Mapping[str, ClusterState], now: Moment) -> None:
    """Bring back memories, by cluster, from a journal: its last checkpoint and the tail after it."""
    checkpoint = journal.load_checkpoint()
    for cluster, memory in memories.items():
        if checkpoint is not None and cluster in checkpoint.parts:
            memory.load(unpack(checkpoint.parts[cluster]), now)
    for poll in journal.tail(checkpoint.poll if checkpoint else 0, tables=REPLAYED):
        for cluster, memory in memories.items():
            batches = [batch for batch in poll.batches if batch.cluster == cluster]
            if batches:
                memory.replay(batches, now)
    for memory in memories.values():
        memory.resume(now)


def left_by_verdicts(lag: Batch) -> npt.NDArray[np.int8]:
    """What was left to read of each row, one of Left, as its verdict tells: brokers' answers are not in the journal."""
    rows, rule = lag.rows, numbers_of(lag.rows, "rule")
    left = np.full(len(lag), TailContent.UNKNOWN, np.int8)
    stood = rule.known & (numbers_of(rows, "seconds_since_moved").values > 0)
    left[stood & (rule.values == VerdictRule.ONLY_MARKERS)] = TailContent.NOTHING
    left[stood & np.isin(rule.values, _MORE_THAN_MARKERS)] = TailContent.RECORDS
    return left


def _duration_ms(batches: Mapping[str, Batch]) -> int:
    """How long a poll took."""
    if "source" not in batches:
        return 0
    took = batches["source"].rows["duration_seconds"].drop_null().to_pylist()
    return round(took[0] * 1000) if took else 0


def _gone(events: Batch) -> tuple[list[str], list[str]]:
    """The groups and topics that events say are gone, or new under an old name."""
    kinds, subjects = strings_of(events.rows, "kind"), strings_of(events.rows, "subject")
    pairs = list(zip(kinds, subjects, strict=True))
    groups = [subject for kind, subject in pairs if kind == "group_gone"]
    return groups, [subject for kind, subject in pairs if kind in ("topic_gone", "topic_recreated")]
