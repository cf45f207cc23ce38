"""A whole agent with a paused scheduler and collectors that return what a test scripts; jobs run when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from lagwatch.assemble.cluster import ClusterJobs, assemble_cluster
from lagwatch.assemble.jmx import JmxAssembly
from lagwatch.batch import Batch
from lagwatch.clock import SettableClock
from lagwatch.config import ClusterSettings, Settings, parse_settings
from lagwatch.pipeline.cluster_state import ClusterState
from lagwatch.protocols import Collected, Collector
from lagwatch.runtime import agent as agent_module
from lagwatch.runtime.agent import Agent
from tests.harness.simulated_consumers import Behaviour, Rate, Simulation

# More keys of a cluster, for `settings_of`.
FROM_TOPIC, FROM_POLLS = "    commits: topic\n", "    commits: poll\n"
WITH_JMX = "    jmx: {port: 9999}\n"


class PausedScheduler(BackgroundScheduler):  # type: ignore[misc]
    """Holds its jobs and runs none of them."""

    def start(self, *_: Any, **__: Any) -> None:
        super().start(paused=True)


class ScriptedCollector:
    """Returns the same result until it gets another one, in place of the `real` collector, which is not used.

    `before` runs first, on the thread of the job.
    """

    def __init__(self, real: Collector) -> None:
        self.real = real
        self.source = real.source
        self.result = Collected([], [])
        self.before: Callable[[], Any] = lambda: None

    def collect(self, now_ms: int) -> Collected:  # noqa: ARG002
        self.before()
        return self.result


def scripted_jobs(settings: ClusterSettings, jmx: JmxAssembly) -> ClusterJobs:
    """The jobs of the settings, with scripted collectors."""
    real = assemble_cluster(settings, jmx)
    return replace(real, jobs=tuple(replace(job, collector=ScriptedCollector(job.collector)) for job in real.jobs))


def settings_of(folder: Path, cluster: str = "", others: str = "") -> Settings:
    """Settings with a cluster `east` that is never reached, with more keys of the cluster and of the file."""
    journal = "" if "journal:" in others else f"journal: {{path: {folder / 'journal.db'}}}\n"
    text = f"{journal}{others}\nclusters:\n  - name: east\n    bootstrap: 127.0.0.1:1\n{cluster}"
    return parse_settings(text, "lagwatch.yml", folder=folder)


def settings_with_clusters(folder: Path, *names: str) -> Settings:
    """Settings with the cluster `east` and these clusters."""
    return settings_of(folder, "".join(f"  - {{name: {name}, bootstrap: '127.0.0.1:1'}}\n" for name in names))


@contextmanager
def scripted_agent(settings: Settings, clock: SettableClock | None = None) -> Iterator[Agent]:
    """A started agent; what it assembles later is scripted too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent_module, "BackgroundScheduler", PausedScheduler)
        patch.setattr(agent_module, "assemble_cluster", scripted_jobs)
        agent = Agent(settings, clock or SettableClock())
        agent.start()
        try:
            yield agent
        finally:
            agent.stop()


def collector_of(agent: Agent, job: str) -> ScriptedCollector:
    """The collector of a job such as `east/kafka`."""
    collector = agent._runners[job].job.collector
    assert isinstance(collector, ScriptedCollector)
    return collector


def run_job(agent: Agent, job: str, result: Collected) -> Sequence[Batch]:
    """One run of a job with this result; returns the batches it journalled."""
    collector_of(agent, job).result = result
    before = agent._journal.newest_poll
    agent._runners[job].run()
    return [batch for poll in agent._journal.read(before) for batch in poll.batches]


def intervals(agent: Agent) -> dict[str, float]:
    """The interval of each scheduled job in seconds."""
    return {job.id: job.trigger.interval.total_seconds() for job in agent._scheduler.get_jobs()}


class AgentSimulation(Simulation):
    """Simulated consumers, observed by the cluster `east` of a scripted agent."""

    def __init__(
        self,
        agent: Agent,
        clock: SettableClock,
        consumers: Mapping[str, tuple[Behaviour, Rate]],
        *,
        from_topic: bool = False,
    ) -> None:
        self.agent = agent
        super().__init__(consumers, from_topic=from_topic, clock=clock)

    def reload(self, settings: Settings) -> None:
        """Reload the agent; commits come from where the settings say from now on."""
        self.agent.reload(settings)
        (east,) = settings.clusters
        self._from_topic, self._poll_seconds = east.commits == "topic", round(east.intervals.kafka.total_seconds())
        for consumer in self.consumers.values():
            consumer.waiting = []

    def see(self, source: str, collected: Collected) -> list[Batch]:
        batches = list(run_job(self.agent, f"east/{source}", collected))
        self.batches.append(batches)
        return batches

    def _new_state(self) -> ClusterState:
        return self.agent._states["east"]
