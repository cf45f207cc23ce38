"""Restores the windows of a running agent from its journal: the checkpoint, then a replay of the polls after it.

It restores only the selected groups, so that one group of ten thousand does not take the time of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lagwatch.batch import Batch
from lagwatch.clock import Clock, Moment, SystemClock
from lagwatch.columns import texts_of
from lagwatch.evaluation import EvaluatedRows, Evaluator
from lagwatch.journal import Checkpoint, JournalReader, Poll
from lagwatch.pipeline.checkpoint import cluster_part, pack, unpack
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.pipeline.pipeline import Pipeline
from lagwatch.pipeline.replay import restore_states
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView
from lagwatch.source_names import CONFIGS, KAFKA, LOGDIRS
from lagwatch.windows import serialize

_BY_GROUP = {"consumer_lag", "consumer_group", "group_member", "commit", serialize.WINDOWS}
_REPLAYED = {"topic", "topic_partition", "consumer_lag", "consumer_group", "group_member", "commit", "event", "source"}


class JournalWindows:
    """Restores the windows of one cluster. Created before the view is read, so that its checkpoint is no newer."""

    def __init__(self, path: Path, groups: NamePatterns, clock: Clock | None = None) -> None:
        self._reader = JournalReader(path, clock)
        self._groups = groups
        self._clock = clock or SystemClock()
        self._checkpoint = self._reader.load_checkpoint()

    def restore(self, view: ClusterView, evaluator: Evaluator | None) -> EvaluatedRows | None:
        """The windows as they were at the poll of the view, evaluated; None before the first whole poll.

        Without an evaluator with the agent's own settings, the defaults apply; the journal says where commits come from.
        """
        evaluator = evaluator or Evaluator(slots=self._slots(view.cluster), reads_topic=True)
        state = ClusterState(Pipeline(view.cluster, evaluator))
        newest = view.snapshot.run(KAFKA)
        if view.lag_poll is None or not newest.keys() >= {"topic_partition", "consumer_lag", "consumer_group"}:
            return None
        journal = _JournalUpTo(self, view.cluster, view.lag_poll)
        restore_states(journal, {view.cluster: state}, Moment.now(self._clock))
        for source in (CONFIGS, LOGDIRS):
            state.pipeline.learn(source, view.snapshot.run(source))
        lag, groups = (select_groups(newest[table], self._groups) for table in ("consumer_lag", "consumer_group"))
        return evaluator.reevaluate(newest["topic_partition"], lag, groups)

    def checkpoint(self, cluster: str) -> Checkpoint | None:
        """The newest checkpoint, with only the selected groups."""
        found = self._checkpoint
        part = cluster_part(cluster)
        if found is None or part not in found.parts:
            return None
        batches = (select_groups(batch, self._groups) for batch in unpack(found.parts[part]))
        return replace(found, parts={part: pack(batches)})

    def read(self, after_poll: int, through_poll: int, cluster: str) -> Sequence[Poll]:
        """The next polls after `after_poll`, with only the selected groups."""
        polls = self._reader.read(after_poll, through_poll=through_poll, tables=_REPLAYED, clusters={cluster})
        return [
            replace(poll, batches=tuple(select_groups(batch, self._groups) for batch in poll.batches)) for poll in polls
        ]

    def _slots(self, cluster: str) -> int:
        part = cluster_part(cluster)
        if self._checkpoint is None or part not in self._checkpoint.parts:
            return 10
        saved = (batch for batch in unpack(self._checkpoint.parts[part]) if batch.table == serialize.ENDS)
        return next((serialize.slots_in(batch.rows) for batch in saved), 10)


class _JournalUpTo:
    """A journal for `restore_states` that ends with the poll `through_poll`; later ones may be written meanwhile."""

    def __init__(self, windows: JournalWindows, cluster: str, through_poll: int) -> None:
        self._windows, self._cluster, self._through_poll = windows, cluster, through_poll

    def load_checkpoint(self) -> Checkpoint | None:
        return self._windows.checkpoint(self._cluster)

    def tail(self, after_poll: int = 0) -> Iterator[Poll]:
        while polls := self._windows.read(after_poll, self._through_poll, self._cluster):
            yield from polls
            after_poll = polls[-1].poll


def select_groups(batch: Batch, groups: NamePatterns) -> Batch:
    """Only the rows of these groups; tables without a group column stay whole."""
    if batch.table not in _BY_GROUP or not groups.names:
        return batch
    names = texts_of(batch.rows, "group")
    wanted = np.array([groups(name) for name in names.values], dtype=bool)
    keep = wanted[names.codes] if len(names.codes) else np.zeros(0, dtype=bool)
    return batch if keep.all() else replace(batch, rows=batch.rows.take(np.flatnonzero(keep)))
