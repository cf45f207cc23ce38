"""Restores the states of all clusters at a start: from the last checkpoint and the runs journalled after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from lagwatch.clock import Moment
from lagwatch.journal import Checkpoint, Poll
from lagwatch.pipeline.checkpoint import cluster_part, unpack
from lagwatch.pipeline.cluster_state import ClusterState


class JournalTail(Protocol):
    """What restoring needs of a journal or a journal reader."""

    def load_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint with a matching CRC."""

    def tail(self, after_poll: int = 0) -> Iterator[Poll]:
        """Every poll after `after_poll`."""


def restore_states(journal: JournalTail, states: Mapping[str, ClusterState], now: Moment) -> None:
    """Restore states, by cluster, from a journal's last checkpoint and the polls after it."""
    checkpoint = journal.load_checkpoint()
    for cluster, state in states.items():
        if checkpoint is not None and cluster_part(cluster) in checkpoint.parts:
            state.load(unpack(checkpoint.parts[cluster_part(cluster)]), now)
    for poll in journal.tail(checkpoint.poll if checkpoint else 0):
        for cluster, state in states.items():
            run = [batch for batch in poll.batches if batch.cluster == cluster]
            if run:
                state.replay(run, now)
    for state in states.values():
        state.finish_replay(now)
