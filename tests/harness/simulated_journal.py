"""Writes the journal of an agent that monitors a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lagwatch.cli.data_source import DataSource, read_journal
from lagwatch.clock import Clock
from lagwatch.journal import Journal
from lagwatch.pipeline.checkpoint import cluster_part, pack
from lagwatch.snapshot.names import NamePatterns
from lagwatch.snapshot.view import ClusterView
from lagwatch.windows import WindowStore
from tests.harness.simulated_consumers import Simulation


class SimulatedJournal:
    """Writes the batches of a simulation in order."""

    def __init__(self, path: Path, simulation: Simulation) -> None:
        self.path, self.simulation = path, simulation
        self._written = 0

    def write(self, *, checkpoint: bool = False) -> None:
        """Write the new batches; with a checkpoint, like every five minutes and at stop."""
        simulation = self.simulation
        with Journal(self.path, clock=simulation.clock) as journal:
            for batches in simulation.batches[self._written :]:
                journal.append(batches)
            if checkpoint:
                at_ms = simulation.clock.wall_ms()
                journal.save_checkpoint({cluster_part("east"): pack(simulation.state.save(at_ms))}, at_ms)
        self._written = len(simulation.batches)


def source_of(journal: Path, config: Path | None = None) -> DataSource:
    """The data source, as from options."""
    return DataSource(None, config, journal, None, None, 5.0, None)


def read_views(
    journal: Path, clock: Clock, *groups: str, config: Path | None = None, with_windows: bool = True
) -> Sequence[ClusterView]:
    """What a command sees."""
    return read_journal(source_of(journal, config), NamePatterns(groups), with_windows=with_windows, clock=clock)


def name_of(store: WindowStore, row: int) -> str:
    """`topic/partition` of a row."""
    names = store.row_names()
    place = int(np.flatnonzero(names.row == row)[0])
    return f"{store.topics.name(int(names.topic[place]))}/{names.partition[place]}"
