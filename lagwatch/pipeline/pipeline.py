"""One cycle of one cluster, on one screen: what a collector brought goes in, what is to be kept comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lagwatch.batch import Batch, make_batch, replace_columns
from lagwatch.catalogue import EVENT
from lagwatch.clock import Moment, SteadyClock
from lagwatch.columns import numbers_of, texts_of
from lagwatch.evaluation import Evaluator
from lagwatch.malloc import trim_malloc
from lagwatch.pipeline.cross_check import CrossCheck
from lagwatch.pipeline.queries.timestamps import WriteTimes
from lagwatch.pipeline.queries.unread_tail import UnreadTails
from lagwatch.pipeline.sources import Sources
from lagwatch.pipeline.state.commits import CommitState
from lagwatch.pipeline.state.groups import GroupState
from lagwatch.pipeline.state.partitions import PartitionState
from lagwatch.pipeline.state.statuses import GroupStatuses, verdict_columns
from lagwatch.protocols import Collected
from lagwatch.verdict.balance import with_ratios
from lagwatch.verdict.status_counts import with_status_counts

Event = tuple[str, str, str, str, str]  # kind, subject, before, after, why

_REPEAT_SECONDS = 300.0  # or the history would forget the members of a group that never changes
COMMITS_SOURCE = "kafka_commits"


class Pipeline:
    """Follows one cluster. Pure but for its memory: the clock and the journal are the caller's."""

    def __init__(self, cluster: str, judge: Evaluator | None = None) -> None:
        self.cluster = cluster
        self.judge = judge or Evaluator()
        self.steady = SteadyClock()
        self.partitions = PartitionState()
        self.commits = CommitState(self.partitions.topics)
        self.groups = GroupState()
        self.write_times = WriteTimes(self.partitions, poll_ms=self.judge.poll_ms)
        self.remainders = UnreadTails(self.partitions)
        self.statuses = GroupStatuses()
        self.sources = Sources(cluster)
        self._health = CrossCheck()
        self._written: dict[str, tuple[object, float]] = {}

    def observe(self, source: str, collected: Collected, duration_seconds: float, now: Moment) -> list[Batch]:
        """All batches of one run of a collector, completed with what was known before."""
        batches = {batch.table: batch for batch in collected.batches}
        steady_ms = self.steady.at(now)
        self.write_times.shift(self.steady.stepped_ms)
        if "consumer_lag" in batches:
            out = self._poll(batches, collected, duration_seconds, now, steady_ms)
        elif source == "kafka":
            out = self._unreachable(now, steady_ms)
        else:
            out = [*collected.batches, *self._aside(batches, now, steady_ms)]
        if collected.timestamp_answers is not None:
            self.write_times.observe_timestamps(
                collected.timestamp_answers, now.wall_ms, self.judge.limits.is_compacted
            )
        if collected.tail_answers is not None:
            self.remainders.observe_answers(collected.tail_answers)
        rated = [with_ratios(batch) if batch.table == "broker" else batch for batch in out]
        out, events = self._health.observe(source, with_status_counts(rated), complete=collected.complete)
        out += event_batch(self.cluster, events, now)
        out.append(self.sources.observe(source, collected, duration_seconds, now))
        if source == COMMITS_SOURCE:
            self.judge.use_topic(tailing=self.sources.is_up(source))
        return [replace(batch, source=source) for batch in out]

    def _poll(
        self, batches: dict[str, Batch], collected: Collected, duration_seconds: float, now: Moment, steady_ms: int
    ) -> list[Batch]:
        topics_gone = self.partitions.gone(batches["topic"])
        recreated = self.partitions.recreated(batches["topic"])
        partitions = self.partitions.complete(batches["topic_partition"], now)
        rebalanced, gone = self.groups.observe(
            batches["consumer_group"], batches["group_member"], complete=collected.complete, now=now
        )
        self.commits.observe(batches["consumer_lag"], self.groups.not_asked(now), now)
        ended_ms = now.wall_ms + round(duration_seconds * 1000)
        truncated = self.write_times.observe(partitions, collected.ends_read, now.wall_ms, ended_ms)
        self.judge.drop(gone, [*topics_gone, *(e.topic for e in recreated)])
        self.judge.observe_members(batches["group_member"])
        judged, events = self._judged(partitions, now, steady_ms, ended_ms)
        events += [
            ("topic_recreated", e.topic, e.before, e.after, f"topic {e.topic} was deleted and created again")
            for e in recreated
        ]
        events += [
            ("rebalance", e.group, e.before, e.after, f"group {e.group} rebalanced: {e.before} -> {e.after}")
            for e in rebalanced
        ]
        events += [("group_gone", group, "", "", f"no broker lists group {group} any more") for group in gone]
        events += [("topic_gone", topic, "", "", f"no broker lists topic {topic} any more") for topic in topics_gone]
        events += [
            ("truncated", name, "", "", f"the end of {name} went back: its log was cut off") for name in truncated
        ]
        return [
            *self._if_changed(batches["topic"], now),
            *judged,
            *self._if_changed(batches["group_member"], now),
            batches["broker"],
            replace_columns(batches["cluster"], {"steady_ms": [steady_ms]}),
            *event_batch(self.cluster, events, now),
        ]

    def _unreachable(self, now: Moment, steady_ms: int) -> list[Batch]:
        """Everything as last known, marked stale."""
        partitions = self.partitions.stale(now.wall_ms, self.cluster, now)
        return [] if partitions is None else self._judged(partitions, now, steady_ms, now.wall_ms)[0]

    def _judged(self, partitions: Batch, now: Moment, steady_ms: int, ended_ms: int) -> tuple[list[Batch], list[Event]]:
        """Partitions, groups and lag with what is said of them, and what changed in that."""
        ages = partial(self.write_times.lag_at, now_ms=ended_ms)
        lag, totals = self.commits.lag(self.cluster, self.partitions.ends(), ages, now)
        groups = self.groups.batch(self.cluster, totals, now)
        trim_malloc()  # of what the lags took; the verdicts take as much again
        left = self.remainders.observe(lag, self.judge.policies, now)
        judged = self.judge.observe_poll(partitions, lag, groups, steady_ms, left)
        names = texts_of(groups.rows, "group").values
        changes = self.statuses.observe(names, judged.groups)
        events: list[Event] = [("status", e.group, e.before, e.after, e.why) for e in changes]
        events += [("rewind", e.group, str(e.before), str(e.after), e.why) for e in judged.rewound]
        events += [("messages_lost", e.group, "", str(e.messages), e.why) for e in self.statuses.began_to_lose(totals)]
        rates = self.judge.store.partition_rates(
            texts_of(partitions.rows, "topic"), numbers_of(partitions.rows, "partition").values
        )
        return [
            replace_columns(partitions, {"messages_in_rate": rates}),
            replace_columns(groups, verdict_columns(names, judged.groups)),
            replace_columns(lag, judged.lag_columns),
        ], events

    def _aside(self, batches: dict[str, Batch], now: Moment, steady_ms: int) -> list[Batch]:
        """What the slower jobs bring is kept as it is; some of it verdicts and forecasts need too."""
        if "commit" in batches:
            rewound = self.judge.observe_commits(batches["commit"], steady_ms)
            return event_batch(
                self.cluster, [("rewind", e.group, str(e.before), str(e.after), e.why) for e in rewound], now
            )
        if "topic" in batches:
            self.judge.limits.observe_configs(batches["topic"])
        if "topic_partition" in batches:
            self.judge.limits.observe_sizes(batches["topic_partition"])
        return []

    def _if_changed(self, batch: Batch, now: Moment) -> list[Batch]:
        """Topics and members change rarely; their long texts are kept when they do, and now and then besides."""
        rows, at = self._written.get(batch.table, (None, 0.0))
        if rows == batch.rows and now.monotonic - at < _REPEAT_SECONDS:
            return []
        self._written[batch.table] = (batch.rows, now.monotonic)
        return [batch]


def event_batch(cluster: str, events: Sequence[Event], now: Moment, source: str = "") -> list[Batch]:
    """The events as a batch, or nothing."""
    if not events:
        return []
    names = ("kind", "subject", "before", "after", "why")
    columns = dict(zip(names, ([*column] for column in zip(*events, strict=True)), strict=True))
    return [make_batch(EVENT, cluster, now.wall_ms, columns, source=source)]
