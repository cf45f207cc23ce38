"""The generated history: offsets never go back, and each incident looks as it should."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lagwatch.cli.demo_history import poll_times
from lagwatch.demo.history.consumers import GroupProgress
from lagwatch.demo.history.layout import Layout
from lagwatch.demo.history.polls import ClusterHistory
from lagwatch.demo.history.story import CLUSTERS, EAST, HOUR, LASTS, WEST, Incident, StoryGroup, StoryTopic, Trouble
from lagwatch.demo.history.traffic import Traffic
from tests.harness.polls import rows_of

END = 1_763_305_200.0
BEGIN = END - 24 * HOUR
TOPIC = StoryTopic("orders", 100, (3, 1), retention_hours=6)


def reading(*incidents: Incident) -> tuple[GroupProgress, Traffic]:
    traffic = Traffic(TOPIC, END)
    return GroupProgress(StoryGroup("g", ("orders",), 2, incidents), {"orders": traffic}, BEGIN, END), traffic


def test_ends_and_starts_only_grow_and_starts_stay_behind() -> None:
    traffic = Traffic(TOPIC, END)
    times = [BEGIN + 600 * step for step in range(145)]

    ends, starts = [traffic.ends(at) for at in times], [traffic.starts(at) for at in times]

    assert all(a <= b for one, two in pairwise(ends) for a, b in zip(one, two, strict=True))
    assert all(a <= b for one, two in pairwise(starts) for a, b in zip(one, two, strict=True))
    assert all(s < e for start, end in zip(starts, ends, strict=True) for s, e in zip(start, end, strict=True))


def test_a_group_that_keeps_up_stays_within_seconds_of_the_end() -> None:
    group, traffic = reading()
    for step in range(1, 100):
        at = BEGIN + 600 * step
        group.advance(at)
        behind = [e - c for e, c in zip(traffic.ends(at), group.committed["orders"], strict=True)]
        assert all(0 <= one <= 3 * traffic.per_second(at) for one in behind)


@pytest.mark.parametrize(
    ("trouble", "members", "state"),
    [
        pytest.param(Trouble.STOPPED, 0, "Empty", id="its processes are gone"),
        pytest.param(Trouble.STUCK, 2, "Stable", id="its members are there and do nothing"),
    ],
)
def test_a_group_that_does_not_move(trouble: Trouble, members: int, state: str) -> None:
    group, _ = reading(Incident(trouble, 10, LASTS))
    group.advance(END - 11 * HOUR)
    before = group.committed["orders"]
    for hours in (9, 5, 1):
        group.advance(END - hours * HOUR)

    assert group.committed["orders"] == before
    assert (len(group.members()), group.state) == (members, state)


def test_a_group_that_comes_back_jumps_over_what_was_deleted() -> None:
    group, traffic = reading(Incident(Trouble.STOPPED, 20, 8))
    for hours in (20.5, 19, 14, 8.1, 8):
        group.advance(END - hours * HOUR)

    at = END - 8 * HOUR
    assert all(c >= s for c, s in zip(group.committed["orders"], traffic.starts(at), strict=True))


def test_a_rewind_goes_back_once() -> None:
    group, _ = reading(Incident(Trouble.REWOUND, 5, 4.5))
    group.advance(END - 5.2 * HOUR)
    before = group.committed["orders"]
    group.advance(END - 5 * HOUR)
    rewound = group.committed["orders"]
    group.advance(END - 4.8 * HOUR)

    assert all(after < earlier for after, earlier in zip(rewound, before, strict=True))
    assert all(after > earlier for after, earlier in zip(group.committed["orders"], rewound, strict=True))


def test_a_storm_changes_members_at_every_poll() -> None:
    group, _ = reading(Incident(Trouble.STORM, 5, 4))
    seen = []
    for minutes in (10, 20, 30):
        group.advance(END - 5 * HOUR + 60 * minutes)
        seen.append(tuple(member.id for member in group.members()))

    assert len(set(seen)) == 3


def test_while_a_broker_is_down_every_partition_misses_it_and_others_lead() -> None:
    layout = Layout.of(EAST, {2})

    assert len(layout.partitions) == sum(len(topic.shares) for topic in EAST.topics) > 0
    assert all(2 not in one.in_sync and one.leader in (1, 3) for one in layout.partitions)
    assert layout.leaders(2) == 0
    assert sum(layout.leaders(broker) for broker in layout.alive) == len(layout.partitions)


def test_an_unreachable_cluster_yields_failures_and_no_rows() -> None:
    runs = list(ClusterHistory(WEST, BEGIN, END).runs(END - 11.7 * HOUR))

    assert [run.source for run in runs] == ["kafka", "kafka_quorum", "kafka_logdirs", "jmx"]
    for run in runs:
        assert [(failure.source, failure.target) for failure in run.collected.failures] == [(run.source, "")]
        assert (list(run.collected.batches), run.collected.complete) == ([], False)


def test_a_poll_brings_what_the_collectors_bring() -> None:
    past = ClusterHistory(EAST, BEGIN, END)
    runs = {run.source: run for run in past.runs(BEGIN)}

    assert set(runs) == {"kafka", "kafka_quorum", "kafka_configs", "kafka_logdirs", "jmx"}
    assert len(rows_of(runs["kafka"].collected.batches, "consumer_group")) == len(EAST.groups)
    assert len(rows_of(runs["jmx"].collected.batches, "broker")) == 3


def test_polls_are_closer_towards_the_end() -> None:
    times = list(poll_times(END - 7 * 24 * HOUR, END, END))

    assert times[0] == END - 7 * 24 * HOUR
    assert times[-1] == END
    assert times == sorted(set(times))
    assert (times[1] - times[0], times[-2] - times[-3]) == (1200, 240)
    assert len(times) < 600


def test_separately_generated_spans_fit_together() -> None:
    """The last day is written first, then the days before it: offsets must continue where those end."""
    seam = END - 24 * HOUR
    before, last = (list(ClusterHistory(EAST, begin, END).runs(seam)) for begin in (END - 7 * 24 * HOUR, seam))

    assert rows_of(before[0].collected.batches, "topic_partition") == rows_of(
        last[0].collected.batches, "topic_partition"
    )
    assert list(poll_times(END - 48 * HOUR, END, seam))[-2:] == [seam - 1200, seam]


def test_groups_read_only_topics_of_their_cluster() -> None:
    for cluster in CLUSTERS:
        topics = {topic.name for topic in cluster.topics}
        assert all(set(group.topics) <= topics for group in cluster.groups)
