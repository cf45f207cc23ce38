"""Every row is in the archive exactly once, in any order of polls and across restarts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagwatch.batch import Batch
from lagwatch.catalogue import EVENT
from tests.harness.archives import HOUR_MS, NOON_MS, events, expected_rows, files_of, lag, opened_sinks, rows_of

FAR_MS = NOON_MS + 90 * 24 * HOUR_MS


@dataclass(frozen=True)
class ArchiveStep:
    """How far the clock moves before a poll, whose poll it is, and whether the agent is killed after it."""

    seconds: int
    cluster: str
    killed: bool
    cursor_behind: int  # polls by which the stored cursor is older than what was settled


STEPS = st.builds(
    ArchiveStep,
    st.one_of(st.integers(1, 90), st.integers(300, 4000), st.integers(-8000, 0)),
    st.sampled_from(["east", "a/b"]),
    st.integers(0, 4).map(lambda number: number == 0),
    st.integers(0, 3),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=1, max_size=25))
def test_restarts_late_polls_and_clock_steps_lose_nothing_and_double_nothing(steps: list[ArchiveStep]) -> None:
    journal = polls_of(steps)
    with tempfile.TemporaryDirectory() as folder, opened_sinks() as sink:
        root = Path(folder)
        archive, written, kills = sink(root), 0, [step for step in steps if step.killed]
        while written < len(journal):
            written += 1
            archive.write(written, journal[written - 1])
            settled = archive.settled(written)
            if written <= len(steps) and steps[written - 1] in kills:
                kills.remove(steps[written - 1])
                written = max(0, settled - steps[written - 1].cursor_behind)
                archive = sink(root)
        assert archive.settled(written) == len(journal) - 1
        archive.close()

        assert sorted(rows_of(root, EVENT)) == sorted(expected_rows(*distinct(journal, "event")))
        assert sorted(map(str, rows_of(root))) == sorted(
            map(str, expected_rows(*first_of_each_minute(distinct(journal, "consumer_lag"))))
        )
        assert all(file.endswith(".parquet") for file in files_of(root))


def polls_of(steps: list[ArchiveStep]) -> list[list[Batch]]:
    """The journal these steps make, and a poll far behind that ends every hour."""
    polls, at_ms = [], NOON_MS
    for step in steps:
        at_ms += step.seconds * 1000
        polls.append([lag(at_ms, step.cluster), events(at_ms, f"a{at_ms}", "b", cluster=step.cluster)])
    return [*polls, [lag(FAR_MS)]]


def distinct(journal: list[list[Batch]], table: str) -> list[Batch]:
    """Its batches of one table but the last; two polls of one time and cluster are the same here."""
    found = {(batch.cluster, batch.at_ms): batch for poll in journal[:-1] for batch in poll if batch.table == table}
    return list(found.values())


def first_of_each_minute(batches: list[Batch]) -> list[Batch]:
    """What is to be archived of a table with rows for each partition."""
    first: dict[tuple[str, int], Batch] = {}
    for batch in sorted(batches, key=lambda batch: batch.at_ms):
        first.setdefault((batch.cluster, batch.at_ms // 60_000), batch)
    return list(first.values())
