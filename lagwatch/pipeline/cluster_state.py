"""The pipeline and the snapshot of one cluster: live, in checkpoints, in a replay, and after a reload.

The evaluator's inputs are replayed run by run through the pipeline's own `learn`, so that a restart changes no verdict.
For everything else the snapshot is sufficient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from lagwatch.batch import Batch, is_retired
from lagwatch.clock import Moment
from lagwatch.evaluation import Evaluator
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.pipeline.queries.timestamps import TABLE as END_HISTORY
from lagwatch.pipeline.sources import empty_tables, ends_read, run_field
from lagwatch.protocols import Collected
from lagwatch.snapshot import Snapshot
from lagwatch.source_names import COMMITS, CONFIGS, EVALUATION, KAFKA, LOGDIRS
from lagwatch.windows import serialize

_WINDOWS = (serialize.ENDS, serialize.WINDOWS)
_EVALUATOR = "evaluator"
_STATE = {END_HISTORY, _EVALUATOR, *_WINDOWS}  # parts of a checkpoint that are not tables of the catalogue


class ClusterState:
    """The pipeline and the snapshot of one cluster, which can be saved and restored."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.snapshot = Snapshot(pipeline.cluster)

    def observe(self, source: str, collected: Collected, duration_seconds: float, now: Moment) -> list[Batch]:
        """Like `Pipeline.observe`. The snapshot changes only when `publish` is called with the journalled batches."""
        return self.pipeline.observe(source, collected, duration_seconds, now)

    def publish(self, batches: Sequence[Batch]) -> None:
        """Replace the snapshot by one that includes this run."""
        self.snapshot = self.snapshot.with_run(batches)

    def reconfigure(self, evaluator: Evaluator, sources: Collection[str], now: Moment) -> list[Batch]:
        """Apply the settings of another evaluator and another set of sources.

        Returns batches to journal: the final rows of sources that are no longer polled.
        """
        if evaluator is not self.pipeline.evaluator:
            self.pipeline.evaluator.reconfigure(evaluator)
            self.pipeline.write_times.poll_ms = evaluator.poll_ms
        self._use_configured_commits()
        return self.retire(now, but=sources)

    def retire(self, now: Moment, but: Collection[str] = ()) -> list[Batch]:
        """Drop every source except these; returns batches to journal: the final ones of each dropped source."""
        retired = (self.snapshot.sources | self.pipeline.sources.names) - {*but, EVALUATION}
        emptied = retired | ({EVALUATION} if KAFKA in retired else set())
        last = [batch for source in sorted(emptied) for batch in empty_tables(self.snapshot.run(source).values(), now)]
        last += [batch for source in sorted(retired) for batch in self.pipeline.retire(source, now)]
        self.publish(last)
        return last

    def save(self, at_ms: int) -> Iterator[Batch]:
        """The batches of a checkpoint."""
        cluster = self.pipeline.cluster
        yield from self.snapshot.batches.values()
        yield self.pipeline.write_times.save(cluster, at_ms)
        yield Batch(_EVALUATOR, cluster, at_ms, self.pipeline.evaluator.state())
        for table, rows in serialize.save(self.pipeline.evaluator.store):
            yield Batch(table, cluster, at_ms, rows)

    def load(self, saved: Sequence[Batch], now: Moment) -> None:
        """Restore from a checkpoint."""
        self.publish([batch for batch in saved if batch.table not in _STATE])
        self._restore(now)
        for run in self.snapshot.all_of("source"):
            self.pipeline.resume_clock(run)
        evaluator = self.pipeline.evaluator
        serialize.load(evaluator.store, [(batch.table, batch.rows) for batch in saved if batch.table in _WINDOWS])
        for source in (CONFIGS, LOGDIRS):
            self.pipeline.learn(source, self.snapshot.run(source))
        members = self.snapshot.newest("group_member", KAFKA)
        if members is not None:
            evaluator.observe_members(members)
        for batch in saved:
            if batch.table == END_HISTORY:
                self.pipeline.write_times.load(batch)
            if batch.table == _EVALUATOR:
                evaluator.restore(batch.rows)

    def replay(self, run: Sequence[Batch], now: Moment) -> None:
        """Apply one journalled append of the previous process: a run, or the final batches of retired sources.

        An append without a row of `source` holds only events of the agent.
        """
        self.publish(run)
        for last in [batch for batch in run if batch.table == "source"]:
            batches = {batch.table: batch for batch in run if batch.source == last.source}
            self.pipeline.resume_clock(last)
            if is_retired(last):
                self.pipeline.sources.forget(last.source)
                if last.source == KAFKA:
                    self.pipeline.forget_cluster()
                batches = {"source": last}  # its other tables are empty: nothing to learn
            if last.source == KAFKA and "consumer_lag" in batches:
                self._restore_poll(batches, now)
            self.pipeline.learn(last.source, batches)

    def finish_replay(self, now: Moment) -> None:
        """Restore the rest after the last run, and switch to the configured source of commits."""
        self._restore(now)
        self._use_configured_commits()
        self.pipeline.evaluator.caught_up = False  # the job of this process looks back first

    def _use_configured_commits(self) -> None:
        """Without a job that reads the offsets topic, commits come from polls, whatever the previous process read."""
        if not self.pipeline.evaluator.reads_topic:
            self.snapshot = self.snapshot.without({COMMITS})
            self.pipeline.evaluator.use_topic(tailing=False)

    def _restore_poll(self, batches: Mapping[str, Batch], now: Moment) -> None:
        """Restore offsets and commits from one poll, and add it to the history of end offsets."""
        pipeline, topics = self.pipeline, self.snapshot.newest("topic", KAFKA)
        if topics is None:
            return
        partitions = batches["topic_partition"]
        pipeline.partitions.restore(partitions, topics, now)
        ended_ms = partitions.at_ms + round((run_field(batches["source"], "duration_seconds") or 0) * 1000)
        pipeline.write_times.observe(partitions, ends_read(batches["source"]), partitions.at_ms, ended_ms)
        pipeline.commits.restore(batches["consumer_lag"], now)
        ages = partial(pipeline.write_times.lag_at, now_ms=ended_ms)  # keeps the points of partitions with lag
        pipeline.commits.lag(pipeline.cluster, pipeline.partitions.ends(), ages, now)

    def _restore(self, now: Moment) -> None:
        """Restore partitions, groups, commits, configurations and sources from the snapshot."""
        pipeline = self.pipeline
        kept = self.snapshot.run(KAFKA)
        if kept.keys() >= {"topic", "topic_partition", "consumer_group", "consumer_lag"}:
            pipeline.partitions.restore(kept["topic_partition"], kept["topic"], now)
            pipeline.groups.restore(kept["consumer_group"], now)
            pipeline.statuses.restore(kept["consumer_group"])
            pipeline.commits.restore(kept["consumer_lag"], now)
        pipeline.configs.restore(self.snapshot.newest("topic", CONFIGS))
        for batch in self.snapshot.all_of("source"):
            pipeline.sources.restore(batch, now)
