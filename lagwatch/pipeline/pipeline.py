"""Processes one run of one job: takes what a collector returned, completes it and evaluates it.

The evaluator learns from `Pipeline.learn` alone, and only from batches that go into the journal. A restart replays the
journal through the same function, so it ends in the same verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lagwatch.batch import Batch, replace_columns
from lagwatch.clock import Moment, SteadyClock
from lagwatch.columns import numbers_of, texts_of
from lagwatch.evaluation import Evaluator, PollEvaluation
from lagwatch.event_kinds import EventKind
from lagwatch.malloc import trim_malloc
from lagwatch.pipeline.cross_check import CrossCheck
from lagwatch.pipeline.events import Event, event_batch, events_of, subjects
from lagwatch.pipeline.queries.timestamps import WriteTimes
from lagwatch.pipeline.queries.unread_tail import UnreadTails
from lagwatch.pipeline.sources import Sources, ends_read, has_backlog, reads_topic, run_field
from lagwatch.pipeline.state.commits import CommitState
from lagwatch.pipeline.state.configs import ConfigState
from lagwatch.pipeline.state.groups import GroupState
from lagwatch.pipeline.state.partitions import PartitionState
from lagwatch.pipeline.state.statuses import GroupStatuses, verdict_columns
from lagwatch.protocols import Collected
from lagwatch.source_names import COMMITS, CONFIGS, JMX, KAFKA, LOGDIRS
from lagwatch.verdict.balance import with_ratios
from lagwatch.verdict.status_counts import with_status_counts

_REPEAT_SECONDS = 300.0  # unchanged rows are repeated, or retention would delete the last ones

_NOUNS = {
    EventKind.TOPIC_RECREATED: "topic",
    EventKind.REBALANCE: "group",
    EventKind.GROUP_GONE: "group",
    EventKind.TOPIC_GONE: "topic",
    EventKind.TRUNCATED: "partition",
}


class Pipeline:
    """Processes the runs of one cluster. The caller owns the clock and the journal."""

    def __init__(self, cluster: str, evaluator: Evaluator | None = None) -> None:
        self.cluster = cluster
        self.evaluator = evaluator or Evaluator()
        self.steady = SteadyClock()
        self.sources = Sources(cluster)
        self._cross_check = CrossCheck()
        self._start_empty()

    def _start_empty(self) -> None:
        self.partitions = PartitionState()
        self.commits = CommitState(self.partitions.topics)
        self.groups = GroupState()
        self.configs = ConfigState()
        self.write_times = WriteTimes(self.partitions, poll_ms=self.evaluator.poll_ms)
        self.unread_tails = UnreadTails(self.partitions)
        self.statuses = GroupStatuses()
        self._written: dict[str, tuple[object, float]] = {}

    def forget_cluster(self) -> None:
        """Drop everything of a cluster that was removed from the configuration, in a replay."""
        pairs = self.evaluator.store.pairs()
        self.evaluator.drop({group for group, _ in pairs}, {topic for _, topic in pairs})
        self._start_empty()

    def observe(self, source: str, collected: Collected, duration_seconds: float, now: Moment) -> list[Batch]:
        """Returns the batches of one run to journal: the collector's, completed and evaluated, each with its source."""
        steady_ms = self.steady.at(now)
        self.write_times.shift(self.steady.stepped_ms)
        run = _by_table(replace(batch, source=source) for batch in collected.batches)
        run["source"] = self.sources.observe(source, collected, duration_seconds, now, steady_ms)
        events = events_of(run.pop("event", None))
        if source == KAFKA:
            run, more = self._complete(run, collected, duration_seconds, now)
            events += more
        if source == CONFIGS and "topic" in run:
            run["topic"] = self.configs.complete(run["topic"], partial=bool(collected.failures))
        run, more = self._evaluated(run, self.learn(source, run))
        events += more
        if collected.timestamp_answers is not None:
            is_compacted = self.evaluator.limits.is_compacted
            self.write_times.observe_timestamps(collected.timestamp_answers, now.wall_ms, is_compacted)
        if collected.tail_answers is not None:
            self.unread_tails.observe_answers(collected.tail_answers)
        run.pop("event", None)  # the batch below has all events
        batches = with_status_counts([with_ratios(b) if b.table == "broker" else b for b in run.values()])
        batches, more = self._cross_check.observe(source, batches, complete=collected.complete)
        return [*batches, *event_batch(self.cluster, events + more, now, source)]

    def retire(self, source: str, now: Moment) -> list[Batch]:
        """Drop a source that is no longer polled; returns batches to journal: its final rows, and what ends with it."""
        events = self._cross_check.retire_jmx() if source == JMX else []
        return [*event_batch(self.cluster, events, now, source), self.sources.retire(source, now)]

    def resume_clock(self, run: Batch) -> None:
        """Continue the steady clock from a journalled run, and apply the step of the wall clock since the run before it."""
        steady_ms = run_field(run, "steady_ms")
        if steady_ms is not None:  # final rows of a retired source lack it
            self.write_times.shift(self.steady.resume(steady_ms, run.at_ms))

    def learn(self, source: str, run: Mapping[str, Batch]) -> PollEvaluation:
        """Feed the evaluator with one run, from the batches that are journalled; live and in a replay alike."""
        evaluator = self.evaluator
        steady_ms = run_field(run["source"], "steady_ms") if "source" in run else None
        if steady_ms is not None:
            evaluator.skew_ms = run["source"].at_ms - steady_ms
        if source == KAFKA and "consumer_lag" in run:
            if "event" in run:
                gone = subjects(run["event"], [EventKind.GROUP_GONE])
                evaluator.drop(gone, subjects(run["event"], [EventKind.TOPIC_GONE, EventKind.TOPIC_RECREATED]))
            if "group_member" in run:
                evaluator.observe_members(run["group_member"])
            return evaluator.observe_poll(run["topic_partition"], run["consumer_lag"], run["consumer_group"])
        if source == CONFIGS and "topic" in run:
            evaluator.limits.observe_configs(run["topic"])
        if source == LOGDIRS and "topic_partition" in run:
            evaluator.limits.observe_sizes(run["topic_partition"])
        if source == COMMITS:
            reads, behind = reads_topic(run["source"]), has_backlog(run["source"])
            return PollEvaluation(rewinds=evaluator.observe_topic(run.get("commit"), reads=reads, behind=behind))
        return PollEvaluation()

    def _complete(
        self, run: dict[str, Batch], collected: Collected, duration_seconds: float, now: Moment
    ) -> tuple[dict[str, Batch], list[Event]]:
        """Offsets, lag and groups of a poll, with the last known values, marked stale, where nothing was returned."""
        ended_ms = now.wall_ms + round(duration_seconds * 1000)
        if "consumer_lag" in run:
            run, events = self._take(run, complete=collected.complete, ended_ms=ended_ms, now=now)
        else:
            partitions, events = self.partitions.stale(now.wall_ms, self.cluster, now), []
            if partitions is None:
                return run, events
            run["topic_partition"], ended_ms = partitions, now.wall_ms
        ages = partial(self.write_times.lag_at, now_ms=ended_ms)
        lag, totals = self.commits.lag(self.cluster, self.partitions.ends(), ages, now)
        run["consumer_group"] = self.groups.batch(self.cluster, totals, now)
        trim_malloc()  # free what computing lag took; the evaluation takes as much again
        run["consumer_lag"] = self.unread_tails.observe(lag, self.evaluator.policies, now)
        events += [
            Event(EventKind.MESSAGES_LOST, lost.group, "", str(lost.messages), lost.why)
            for lost in self.statuses.began_to_lose(totals)
        ]
        for batch in event_batch(self.cluster, events, now, KAFKA):
            run["event"] = batch
        return {table: replace(batch, source=KAFKA) for table, batch in run.items()}, events

    def _take(
        self, run: dict[str, Batch], *, complete: bool, ended_ms: int, now: Moment
    ) -> tuple[dict[str, Batch], list[Event]]:
        """Update the last known state with a poll; returns the poll without what did not change, and what did."""
        topics_deleted = self.partitions.deleted(run["topic"])
        recreated = self.partitions.recreated(run["topic"])
        self.configs.drop({*topics_deleted, *(topic.topic for topic in recreated)})
        run["topic_partition"] = self.partitions.complete(run["topic_partition"], now)
        rebalanced, groups_gone = self.groups.observe(
            run["consumer_group"], run["group_member"], complete=complete, now=now
        )
        self.commits.observe(run["consumer_lag"], self.groups.stale_groups(now), now)
        truncated = self.write_times.observe(run["topic_partition"], ends_read(run["source"]), now.wall_ms, ended_ms)
        unchanged = {table for table in ("topic", "group_member") if not self._has_changed(run[table], now)}
        changes = [
            *(
                (EventKind.TOPIC_RECREATED, e.topic, e.before, e.after, "was deleted and created again")
                for e in recreated
            ),
            *(
                (EventKind.REBALANCE, e.group, e.before, e.after, f"rebalanced: {e.before} -> {e.after}")
                for e in rebalanced
            ),
            *((EventKind.GROUP_GONE, group, "", "", "is no longer listed by any broker") for group in groups_gone),
            *((EventKind.TOPIC_GONE, topic, "", "", "is no longer listed by any broker") for topic in topics_deleted),
            *((EventKind.TRUNCATED, name, "", "", "was truncated: its log end went back") for name in truncated),
        ]
        events = [Event(*change[:4], f"{_NOUNS[change[0]]} {change[1]} {change[4]}") for change in changes]
        return {table: batch for table, batch in run.items() if table not in unchanged}, events

    def _evaluated(self, run: dict[str, Batch], found: PollEvaluation) -> tuple[dict[str, Batch], list[Event]]:
        """The run with its verdicts, and the events they make."""
        events = [Event(EventKind.REWIND, e.group, str(e.before), str(e.after), e.why) for e in found.rewinds]
        if found.groups is None:
            return run, events
        partitions, groups = run["topic_partition"], run["consumer_group"]
        names = texts_of(groups.rows, "group").values
        changes = self.statuses.observe(names, found.groups)
        events = [Event(EventKind.STATUS, e.group, e.before, e.after, e.why) for e in changes] + events
        rates = self.evaluator.store.partition_rates(
            texts_of(partitions.rows, "topic"), numbers_of(partitions.rows, "partition").values
        )
        evaluated: dict[str, Any] = {
            "topic_partition": replace_columns(partitions, {"messages_in_rate": rates}),
            "consumer_group": replace_columns(groups, verdict_columns(names, found.groups)),
            "consumer_lag": replace_columns(run["consumer_lag"], found.lag_columns),
        }
        return {**run, **evaluated}, events

    def _has_changed(self, batch: Batch, now: Moment) -> bool:
        """Topics and members change rarely; their long texts are journalled when they do, and every five minutes."""
        rows, at = self._written.get(batch.table, (None, 0.0))
        if rows == batch.rows and now.monotonic - at < _REPEAT_SECONDS:
            return False
        self._written[batch.table] = (batch.rows, now.monotonic)
        return True


def _by_table(batches: Iterable[Batch]) -> dict[str, Batch]:
    """The batches of a run by table. A collector returns one of each: a second one would displace the first."""
    run: dict[str, Batch] = {}
    for batch in batches:
        if batch.table in run:
            raise ValueError(f"{batch.source} returned two batches of {batch.table} in one run")
        run[batch.table] = batch
    return run
